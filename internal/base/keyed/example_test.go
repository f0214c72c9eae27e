package keyed_test

import (
	"context"
	"errors"
	"fmt"

	"ingot/internal/base/keyed"
)

// Work on one name excludes other work on that name only.
func ExampleMutex() {
	var apps keyed.Mutex
	unlock, err := apps.Lock(context.Background(), "shop")
	if err != nil {
		panic(err)
	}
	defer unlock()

	ctx, cancel := context.WithCancel(context.Background())
	cancel() // do not wait
	_, err = apps.Lock(ctx, "shop")
	fmt.Println("shop:", errors.Is(err, context.Canceled))

	unlockOther, err := apps.Lock(context.Background(), "blog")
	fmt.Println("blog:", err)
	unlockOther()
	// Output:
	// shop: true
	// blog: <nil>
}
