package connlimit_test

import (
	"fmt"

	"ingot/internal/base/connlimit"
)

// One source cannot use up all connections.
func ExampleLimiter() {
	l := connlimit.New(connlimit.Limits{PerSource: 1, Total: 10})
	first := l.Take("192.0.2.1", func() {})
	fmt.Println("refused:", l.Take("192.0.2.1", func() {}) == nil)
	first.Release()
	fmt.Println("refused:", l.Take("192.0.2.1", func() {}) == nil)
	fmt.Println("open:", l.Open())
	// Output:
	// refused: true
	// refused: false
	// open: 1
}
