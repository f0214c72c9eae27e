// Package libraries compares parts that Ingot has written itself with the
// libraries that could have done the work. It has benchmarks and tests only; the
// decision records in docs/decisions quote their figures.
//
//	go -C bench test -bench . ./libraries
//
// The tests keep the reasons true that are not about speed: what a library does
// not do, or does otherwise than is asked of us. When one fails, a newer version
// has learned it, and the decision can be taken again.
//
// The router's fast path and the SMTP client are compared beside their packages,
// with the standard library: BenchmarkBeside in internal/platform/edge/router,
// BenchmarkChannel and BenchmarkNetSMTP in internal/notify/mail.
package libraries
