//go:build !race

package api_test

// manyApps is what a large installation has.
const manyApps = 10_000
