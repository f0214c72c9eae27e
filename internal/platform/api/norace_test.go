//go:build !race

package api_test

// manyApps is enough to see what depends on their number.
const manyApps = 2000
