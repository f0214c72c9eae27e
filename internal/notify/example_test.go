package notify_test

import (
	"crypto/sha256"
	"fmt"

	"ingot/internal/notify"
)

// Public ids do not show how many messages there are.
func ExampleIDs() {
	key := sha256.Sum256([]byte("kept with the database"))
	ids, err := notify.NewIDs(key[:])
	if err != nil {
		panic(err)
	}
	first, second := ids.Message(1), ids.Message(2)
	fmt.Println(len(first), first != second)
	fmt.Println(ids.MessageNumber(second))
	_, ok := ids.SendNumber(second) // the id of a message is not that of a send
	fmt.Println(ok)
	// Output:
	// 36 true
	// 2 true
	// false
}

func ExampleUsableAddress() {
	for _, a := range []string{"ann@example.com", "Ann <ann@example.com>", "ann@example.com\r\nBcc: x"} {
		fmt.Printf("%q %v\n", a, notify.UsableAddress(a))
	}
	// Output:
	// "ann@example.com" true
	// "Ann <ann@example.com>" false
	// "ann@example.com\r\nBcc: x" false
}
