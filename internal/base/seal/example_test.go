package seal_test

import (
	"fmt"

	"ingot/internal/base/seal"
)

// A new key goes in front of the old one, which still opens what it sealed.
func ExampleKeyring() {
	oldKey, newKey := seal.NewKey(), seal.NewKey()
	before, err := seal.Parse(oldKey)
	if err != nil {
		panic(err)
	}
	sealed := before.Seal([]byte("hunter2"), "users.password/7")

	after, err := seal.Parse(newKey + "\n" + oldKey)
	if err != nil {
		panic(err)
	}
	plain, err := after.Open(sealed, "users.password/7")
	fmt.Println(string(plain), err, after.IsCurrent(sealed))

	_, err = after.Open(sealed, "users.password/8") // copied to another row
	fmt.Println(err != nil)
	// Output:
	// hunter2 <nil> false
	// true
}
