"""The backend of batched arrays: the functions of `ferro.cpu` of every slice at once, for functions that run under vmap."""
