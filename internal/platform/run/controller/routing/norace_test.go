//go:build !race

package routing

const slow = false
