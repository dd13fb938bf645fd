"""Memory plans of graphs: which arrays a run makes, where each lies in one arena, and runs that follow the plan."""
