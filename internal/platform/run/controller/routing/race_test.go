//go:build race

package routing

// slow is true under the race detector, which makes SQLite, itself a Go program,
// a hundred times slower.
const slow = true
