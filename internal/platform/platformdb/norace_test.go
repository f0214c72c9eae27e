//go:build unix && !race

package platformdb

const slow = false
