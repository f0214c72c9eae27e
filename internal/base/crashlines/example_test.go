package crashlines_test

import (
	"fmt"

	"ingot/internal/base/crashlines"
)

func ExampleExplain() {
	lines := []string{
		"Listening on 8080",
		"Traceback (most recent call last):",
		`  File "app.py", line 3, in <module>`,
		"    connect(DATABASE)",
		"ConnectionError: refused",
	}
	begin, end, cause := crashlines.Explain(lines)
	fmt.Println(cause)
	for _, line := range lines[begin:end] {
		fmt.Println("|", line)
	}
	// Output:
	// ConnectionError: refused
	// | Listening on 8080
	// | Traceback (most recent call last):
	// |   File "app.py", line 3, in <module>
	// |     connect(DATABASE)
	// | ConnectionError: refused
}
