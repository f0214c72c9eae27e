package manpage_test

import (
	"os/exec"
	"strings"
	"testing"

	"ingot/internal/base/manpage"
)

var page = manpage.Page{
	Name: "ingot-test", Summary: "Test \"everything\"", Synopsis: []string{"ingot test [FLAGS] 'A B'"},
	Parts: []manpage.Part{
		{Title: "Description", Text: ".TH is not a request here.\n\nA second paragraph, with C:\\path, `code` and … more."},
		{Title: "Options", Items: []manpage.Item{{Term: "-f, --file-name FILE", Text: "'quoted' text\nin two lines"}}},
		{Title: "Examples", Commands: []string{`.start --file-name ~/x^2`, `  ingot test -d '{"a": "b\n"}'`}},
	},
	SeeAlso: []string{"ingot", "ingot-push"},
}

func TestText(t *testing.T) {
	t.Parallel()
	text := page.Text("ingot 1.2.3-rc.1")
	for _, want := range []string{
		`.TH INGOT\-TEST 1 "" "ingot 1.2.3\-rc.1" "User Commands"` + "\n",
		`ingot\-test \- Test \(dqeverything\(dq` + "\n",
		`\&.TH is not a request here.` + "\n.PP\n" + `A second paragraph, with C:\(rspath, \(gacode\(ga and \[u2026] more.` +
			"\n",
		".TP\n" + `\fB\-f, \-\-file\-name FILE\fR` + "\n" + `\(aqquoted\(aq text in two lines` + "\n",
		`\&.start \-\-file\-name \(ti/x\(ha2` + "\n",
		".SH SEE ALSO\n" + `\fBingot\fR(1),` + "\n" + `\fBingot\-push\fR(1)` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	if got := page.File(); got != "ingot-test.1" {
		t.Errorf("File() = %q, want ingot-test.1", got)
	}
}

// groff prints what was written, and warns of nothing.
func TestGroff(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	cmd := exec.Command(groff, "-man", "-ww", "-Tutf8", "-rLL=200n", "-P-c", "-P-b", "-P-u")
	cmd.Stdin = strings.NewReader(page.Text("ingot 1.2.3"))
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("groff: %v, warnings %q", err, problems.String())
	}
	for _, want := range []string{
		".TH is not a request here.", "C:\\path, `code` and … more.", "--file-name FILE", "'quoted' text in two lines",
		".start --file-name ~/x^2", `ingot test -d '{"a": "b\n"}'`, "ingot(1), ingot-push(1)",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("groff does not print %q:\n%s", want, out)
		}
	}
}
