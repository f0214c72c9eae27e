package suggest_test

import (
	"fmt"

	"ingot/internal/base/suggest"
)

func ExampleClosest() {
	commands := []string{"push", "apps", "logs"}
	fmt.Printf("%q\n", suggest.Closest("psuh", commands))
	fmt.Printf("%q\n", suggest.Closest("marketplace", commands))
	// Output:
	// "push"
	// ""
}
