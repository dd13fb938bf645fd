"""Complex numbers in printed kernels: a type of their own, since NVRTC comes without a library of C++.

Products are the four real products, quotients by Smith's algorithm (1962), as in NumPy. Functions go by their real and imaginary
parts; at poles and infinities they are nan where C's library has an infinity. Each has a name of its own: in a namespace one would hide
those of real numbers.
"""

from __future__ import annotations

COMPLEX_STORED = {"complex64": "Complex64", "complex128": "Complex128"}
COMPLEX_CALLS = frozenset(("cos", "exp", "log", "sigmoid", "sin", "sqrt", "tanh"))

COMPLEX_HEAD = """template <class R> struct __align__(2 * sizeof(R)) Complex {
  R re, im;
  Complex() = default;
  __device__ Complex(R re, R im) : re(re), im(im) {}
  __device__ explicit Complex(double re) : re(R(re)), im(0) {}
};
typedef Complex<float> Complex64;
typedef Complex<double> Complex128;
template <class R> __device__ inline Complex<R> operator+(Complex<R> x, Complex<R> y) { return {x.re + y.re, x.im + y.im}; }
template <class R> __device__ inline Complex<R> operator-(Complex<R> x, Complex<R> y) { return {x.re - y.re, x.im - y.im}; }
template <class R> __device__ inline Complex<R> operator-(Complex<R> x) { return {-x.re, -x.im}; }
template <class R> __device__ inline Complex<R> operator*(Complex<R> x, Complex<R> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class R> __device__ inline Complex<R> operator/(Complex<R> x, Complex<R> y) {
  if (fabs(y.re) >= fabs(y.im)) {
    if (y.re == 0 && y.im == 0) return {x.re / fabs(y.re), x.im / fabs(y.re)};
    const R part = y.im / y.re, scale = 1 / (y.re + y.im * part);
    return {(x.re + x.im * part) * scale, (x.im - x.re * part) * scale};
  }
  const R part = y.re / y.im, scale = 1 / (y.re * part + y.im);
  return {(x.re * part + x.im) * scale, (x.im * part - x.re) * scale};
}
template <class R> __device__ inline bool operator==(Complex<R> x, Complex<R> y) { return x.re == y.re && x.im == y.im; }
template <class R> __device__ inline bool operator!=(Complex<R> x, Complex<R> y) { return !(x == y); }
template <class R> __device__ inline Complex<R> conjugate(Complex<R> x) { return {x.re, -x.im}; }
template <class R> __device__ inline Complex<R> complex_exp(Complex<R> x) {
  const R r = exp(x.re);
  return {r * cos(x.im), r * sin(x.im)};
}
template <class R> __device__ inline R modulus(Complex<R> x) {
  const R a = fabs(x.re), b = fabs(x.im), most = a > b ? a : b, least = a > b ? b : a;
  if (most == 0) return most;
  const R part = least / most;
  return most * sqrt(1 + part * part);
}
template <class R> __device__ inline Complex<R> complex_log(Complex<R> x) { return {log(modulus(x)), atan2(x.im, x.re)}; }
template <class R> __device__ inline Complex<R> complex_sqrt(Complex<R> x) {
  const R a = fabs(x.re);
  const R r = sqrt((a + modulus(x)) / 2);
  if (r == 0) return {r, x.im};
  const R other = fabs(x.im) / (2 * r), up = x.re >= 0 ? r : other, side = x.re >= 0 ? other : r;
  return {up, x.im < 0 ? -side : side};
}
template <class R> __device__ inline Complex<R> complex_sin(Complex<R> x) { return {sin(x.re) * cosh(x.im), cos(x.re) * sinh(x.im)}; }
template <class R> __device__ inline Complex<R> complex_cos(Complex<R> x) { return {cos(x.re) * cosh(x.im), -(sin(x.re) * sinh(x.im))}; }
template <class R> __device__ inline Complex<R> complex_tanh(Complex<R> x) {
  const R wide = x.re > 20 ? R(20) : x.re < -20 ? R(-20) : x.re;
  const R c = cos(x.im), h = sinh(wide), all = h * h + c * c;
  return {cosh(wide) * h / all, c * sin(x.im) / all};
}
template <class R> __device__ inline Complex<R> complex_sigmoid(Complex<R> x) { return Complex<R>(1.0) / (Complex<R>(1.0) + complex_exp(-x)); }
template <class R> __device__ inline void store(Complex<R>* p, Complex<R> x) { *p = x; }
"""
