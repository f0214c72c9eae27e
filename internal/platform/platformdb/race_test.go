//go:build unix && race

package platformdb

// slow is true under the race detector, which makes SQLite, itself a Go program,
// a hundred times slower: nothing is timed then.
const slow = true
