package initproto

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLang sees that programs know UTF-8 with only this locale set. Others that the machine
// may lack, such as en_US.UTF-8, do not count.
func TestLang(t *testing.T) {
	t.Parallel()
	for _, program := range [][]string{
		{"locale", "charmap"},
		{"perl", "-MI18N::Langinfo=langinfo,CODESET", "-e",
			"use POSIX; setlocale(LC_ALL, '') or die; print langinfo(CODESET)"},
		{"python3", "-X", "utf8=0", "-c", "import locale; print(locale.getpreferredencoding())"},
		{"ruby", "-e", "puts Encoding.default_external"},
		{"java", "-Xshare:auto", "-Xmx32m", "-XshowSettings:properties", "-version"},
	} {
		t.Run(program[0], func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(program[0])
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.CommandContext(t.Context(), path, program[1:]...)
			cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "LANG=" + Lang}
			out, err := cmd.CombinedOutput()
			text := string(out)
			if program[0] == "java" { // the encoding of file names
				_, text, _ = strings.Cut(text, "sun.jnu.encoding = ")
				text, _, _ = strings.Cut(text, "\n")
			}
			if err != nil || strings.TrimSpace(text) != "UTF-8" {
				t.Errorf("%s: %v, %q, want UTF-8\n%s", program, err, text, out)
			}
		})
	}
}
