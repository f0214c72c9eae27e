//go:build !linux

package rootless

// InNet calls f: there are no namespaces.
func InNet[T any](f func() (T, error)) (T, error) { return f() }
