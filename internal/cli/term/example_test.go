package term_test

import (
	"fmt"
	"os"

	"ingot/internal/cli/term"
)

func ExamplePrinter_Table() {
	p := term.NewPrinter(os.Stdout, false)
	p.Table(term.Table{
		Heading: []string{"name", "state", "instances"},
		Rows:    [][]term.Cell{term.Cells("shop", "started", "2/2"), term.Cells("my-long-name", "stopped", "0/1")},
	})
	// Output:
	// name           state     instances
	// shop           started   2/2
	// my-long-name   stopped   0/1
}

func ExampleSize() {
	fmt.Println(term.Size(1536), term.Size(64<<20))
	// Output: 1.5K 64M
}
