package manifestkeys_test

import (
	"fmt"

	"ingot/internal/base/manifestkeys"
)

func ExampleCheck() {
	for _, w := range manifestkeys.Check([]byte("applications:\n- name: shop\n  memroy: 64M\n")) {
		fmt.Printf("line %d: %s\n", w.Line, w.Text)
	}
	// Output: line 3: manifest key 'memroy' is unknown and ignored; did you mean 'memory'?
}
