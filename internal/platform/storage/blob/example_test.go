package blob_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := blob.Open(dir)
	if err != nil {
		panic(err)
	}
	files := strings.NewReader("the files of an app")
	info, err := store.Put(ctx, blob.Packages, "guid-1", files, blob.PutOptions{MaxSize: 1 << 20})
	fmt.Println(info.Size, err)

	b, err := store.Open(ctx, blob.Packages, "guid-1")
	if err != nil {
		panic(err)
	}
	defer b.Close()
	content, err := io.ReadAll(b)
	fmt.Println(string(content), err)

	_, err = store.Stat(ctx, blob.Droplets, "guid-1")
	fmt.Println(fault.Is(err, fault.NotFound))
	// Output:
	// 19 <nil>
	// the files of an app <nil>
	// true
}
