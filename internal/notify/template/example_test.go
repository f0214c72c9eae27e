package template_test

import (
	"fmt"

	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

func ExampleCompile() {
	t, err := template.Compile(notify.Template{
		Subject: "[Ingot] {{.Subject}}", Text: "{{.Text}}\n\nSent to {{.To}}",
	})
	if err != nil {
		panic(err)
	}
	body, err := t.Render(template.Values{Subject: "App crashed", Text: "shop & blog", To: "ann@example.com"})
	if err != nil {
		panic(err)
	}
	fmt.Println(body.Subject)
	fmt.Println(body.Text)
	// Output:
	// [Ingot] App crashed
	// shop & blog
	//
	// Sent to ann@example.com
}

func ExampleToText() {
	fmt.Println(template.ToText(`<h1>Report</h1><ul><li>one<li>two</ul><a href="https://example.com/r">Read it</a>`))
	// Output:
	// Report
	//
	// * one
	// * two
	//
	// Read it <https://example.com/r>
}
