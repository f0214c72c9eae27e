package template

// Clean returns a document without active content.
func Clean(document string) string {
	var b builder
	c := cleaner{out: &b}
	c.run(document)
	return b.String()
}
