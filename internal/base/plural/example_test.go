package plural_test

import (
	"fmt"

	"ingot/internal/base/plural"
)

func ExampleCount() {
	fmt.Println(plural.Count(1, "app instance"))
	fmt.Println(plural.Count(3, "app instance"))
	fmt.Println(plural.Count(0, "policy"))
	// Output:
	// 1 app instance
	// 3 app instances
	// 0 policies
}
