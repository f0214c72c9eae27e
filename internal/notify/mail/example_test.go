package mail_test

import (
	"fmt"

	"ingot/internal/notify/mail"
)

func ExampleParseAddress() {
	fmt.Println(mail.ParseAddress("Ann <ann@example.com>"))
	_, err := mail.ParseAddress("ann@example.com, bob@example.com")
	fmt.Println(err)
	// Output:
	// ann@example.com <nil>
	// "ann@example.com, bob@example.com" is not a mail address like user@example.com
}
