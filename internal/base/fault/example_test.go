package fault_test

import (
	"errors"
	"fmt"
	"io/fs"

	"ingot/internal/base/fault"
)

// The message is for the user; the cause is for the log and for errors.Is.
func ExampleWrap() {
	var err error = fault.Wrap(fs.ErrNotExist, fault.NotFound, "App %s does not exist.", "shop")
	err = fmt.Errorf("start: %w", err)
	fmt.Println(fault.CodeOf(err))
	fmt.Println(fault.Is(err, fault.NotFound), errors.Is(err, fs.ErrNotExist))
	// Output:
	// ResourceNotFound
	// true true
}
