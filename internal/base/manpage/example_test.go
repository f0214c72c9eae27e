package manpage_test

import (
	"fmt"

	"ingot/internal/base/manpage"
)

func ExamplePage_Text() {
	page := manpage.Page{
		Name: "ingot-push", Summary: "Push an app", Synopsis: []string{"ingot push [APP]"},
		Parts: []manpage.Part{{Title: "Options", Items: []manpage.Item{{Term: "-p PATH", Text: "Folder of the app."}}}},
	}
	fmt.Println(page.File())
	fmt.Print(page.Text("ingot 1.0.0"))
	// Output:
	// ingot-push.1
	// .TH INGOT\-PUSH 1 "" "ingot 1.0.0" "User Commands"
	// .nh
	// .ad l
	// .SH NAME
	// ingot\-push \- Push an app
	// .SH SYNOPSIS
	// .nf
	// ingot push [APP]
	// .fi
	// .SH OPTIONS
	// .TP
	// \fB\-p PATH\fR
	// Folder of the app.
}
