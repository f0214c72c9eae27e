package background_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"ingot/internal/base/background"
)

// Each works on many items with a limited number of goroutines.
func ExampleEach() {
	var total atomic.Int64
	err := background.Each(context.Background(), "sum", 2, []int64{1, 2, 3, 4}, func(_ context.Context, n int64) error {
		total.Add(n)
		return nil
	})
	fmt.Println(total.Load(), err)
	// Output: 10 <nil>
}

// A panic is an error of the job; the program continues.
func ExampleDo() {
	err := background.Do("import", func() error {
		panic("no such file")
	})
	var panicked *background.PanicError
	if errors.As(err, &panicked) {
		fmt.Printf("%s: %v\n", panicked.Name, panicked.Value)
	}
	// Output: import: no such file
}
