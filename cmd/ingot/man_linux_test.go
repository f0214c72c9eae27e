package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jessevdk/go-flags"

	"ingot/internal/cli"
	"ingot/internal/cli/core"
)

// call runs the program as root, and returns what it wrote.
func call(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	p := &process{name: "ingot", args: args, in: strings.NewReader(""), getenv: func(string) string { return "" },
		out: &o, err: &e}
	code = p.run()
	return o.String(), e.String(), code
}

// Every command has a manual page with its summary and all its flags, and the page of
// the program lists every command.
func TestManual(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	if out, errs, code := call("man", "--dir", dir); code != 0 || !strings.Contains(out, dir) {
		t.Fatalf("ingot man: exit code %d, %q, %q", code, out, errs)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
		}
		// As it was before the dashes and quotes were escaped.
		return strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(dq`, `"`).Replace(string(text))
	}
	overview := read("ingot")
	pages := 1
	check := func(name, summary string, flags []string) {
		pages++
		text := read("ingot-" + strings.ReplaceAll(name, " ", "-"))
		if !strings.Contains(text, summary) {
			t.Errorf("the page of %s does not say %q", name, summary)
		}
		for _, flag := range flags {
			if flag != "--help" && !regexp.MustCompile(`\\fB(-., )?`+flag+`[ \\]`).MatchString(text) {
				t.Errorf("the page of %s has no flag %s", name, flag)
			}
		}
		if !strings.Contains(name, " ") && !regexp.MustCompile(`\\fB`+name+`[,\\]`).MatchString(overview) {
			t.Errorf("ingot(1) does not list %s", name)
		}
	}
	var walk func(prefix string, all []core.Other)
	walk = func(prefix string, all []core.Other) {
		for _, o := range all {
			if cli.IsCommand(o.Name) && prefix == "" {
				pages-- // one page for both
			}
			check(prefix+o.Name, o.Summary, o.Flags)
			walk(prefix+o.Name+" ", o.Sub)
		}
	}
	walk("", others())
	for _, page := range cli.Manual(&core.Env{Program: "ingot"}) {
		words := strings.TrimPrefix(page.Synopsis[0], "ingot ")
		name := words[:len(strings.TrimPrefix(page.Name, "ingot-"))]
		out, _, _ := call(append([]string{"help"}, strings.Fields(name)...)...)
		var flags []string
		for _, m := range regexp.MustCompile(`(?m)^  (?:-., )?(--[a-z-]+)`).FindAllStringSubmatch(out, -1) {
			flags = append(flags, m[1])
		}
		check(name, page.Summary, flags)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) != pages || pages < 100 {
		t.Errorf("%d pages, %v, want %d", len(files), err, pages)
	}
	if out, errs, code := call("man"); code != 0 || out == "" || !strings.HasPrefix(overview, out[:20]) {
		t.Errorf("ingot man: exit code %d, %q, want the page of the program", code, errs)
	}
}

// Help and manual page show the same lines of usage, with the arguments of the command and
// the flags it cannot do without.
func TestUsageLines(t *testing.T) {
	t.Parallel()
	synopsis := map[string][]string{}
	for _, page := range manual() {
		synopsis[page.Name] = page.Synopsis
	}
	for command, want := range map[string][]string{
		"up":            {"ingot up [FLAGS]"},
		"backup":        {"ingot backup TARGET --recipient KEYS [FLAGS]", "ingot backup COMMAND [FLAGS]"},
		"backup list":   {"ingot backup list TARGET [FLAGS]"},
		"backup keygen": {"ingot backup keygen --output FILE [FLAGS]"},
		"backup prune":  {"ingot backup prune TARGET --keep N [FLAGS]"},
		"backup verify": {"ingot backup verify TARGET --key FILE [FLAGS]"},
		"restore":       {"ingot restore TARGET --key FILE [FLAGS]"},
		"blob":          {"ingot blob COMMAND [FLAGS]"},
		"blob copy":     {"ingot blob copy --from URL --to URL [FLAGS]"},
		"db copy":       {"ingot db copy --from DIR|URL --to URL [FLAGS]"},
		"broker check":  {"ingot broker check URL [FLAGS]"},
	} {
		out, errs, code := call(append(strings.Fields(command), "--help")...)
		if usage := "Usage:\n  " + strings.Join(want, "\n  ") + "\n\n"; code != 0 || !strings.HasPrefix(out, usage) {
			t.Errorf("help of %s: exit code %d, %s%s, want\n%s", command, code, out, errs, usage)
		}
		if got := synopsis["ingot-"+strings.ReplaceAll(command, " ", "-")]; !slices.Equal(got, want) {
			t.Errorf("the manual page of %s has the synopsis %q, want %q", command, got, want)
		}
	}
}

// groff formats every page without a warning.
func TestManualFormatted(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	var all strings.Builder
	for _, page := range manual() {
		all.WriteString(page.Text("ingot"))
	}
	cmd := exec.Command(groff, "-man", "-ww", "-Tutf8")
	var problems, out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(all.String()), &out, &problems
	if err := cmd.Run(); err != nil || problems.Len() > 0 || out.Len() < all.Len()/2 {
		t.Errorf("groff: %v, %d bytes, warnings:\n%s", err, out.Len(), problems.String())
	}
}

// Completion knows the server's commands, too.
func TestCompletionOfServer(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"dem": "demo\n", "up --listen": "--listen\n", "db ": "copy\nmigrate\n", "db copy --f": "--from\n",
		"keys rotate-e":            "rotate-encryption\n",
		"notifications --platform": "--platform-url\n", "notifications se": "send\n", "up x": "", "man --d": "--dir\n",
	} {
		out, _, code := call(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		lines := strings.Fields(out)
		slices.Sort(lines)
		if got := strings.Join(lines, "\n"); got != strings.TrimSpace(want) || code != 0 {
			t.Errorf("%q: %d %q, want %q", line, code, got, want)
		}
	}
}

// packaging/default has only variables that the server reads and that the unit does not
// override, and shows their defaults.
func TestPackagedDefaults(t *testing.T) {
	t.Parallel()
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		t.Fatal(err)
	}
	p := &process{getenv: func(string) string { return "" }}
	p.applyDefaults(optionsOf(parser.Command))
	known := map[string]*flags.Option{}
	for _, o := range optionsOf(parser.Find("up")) {
		known[o.EnvDefaultKey] = o
	}
	unit, err := os.ReadFile("../../packaging/ingot.service")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=.* up (.*)$`).FindSubmatch(unit)
	if command == nil {
		t.Fatal("ingot.service does not run `ingot up`")
	}
	fixed := map[string]bool{}
	for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllSubmatch(command[1], -1) {
		fixed[string(m[1])] = true
		if !slices.ContainsFunc(optionsOf(parser.Find("up")),
			func(o *flags.Option) bool { return o.LongName == string(m[1]) }) {
			t.Errorf("ingot.service uses --%s, which `ingot up` does not have", m[1])
		}
	}
	text, err := os.ReadFile("../../packaging/default")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, m := range regexp.MustCompile(`(?m)^(# )?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		comment, name, value := m[1], m[2], m[3]
		o := known[name]
		if o == nil {
			t.Errorf("packaging/default has %s, which is not a variable of `ingot up`", name)
			continue
		}
		shown++
		standard := ""
		if len(o.Default) > 0 {
			standard = o.Default[0]
		}
		switch {
		case comment == "":
			t.Errorf("%s is set; the package must not change a default", name)
		case fixed[o.LongName]:
			t.Errorf("%s has no effect: ingot.service sets --%s", name, o.LongName)
		case value != standard && !regexp.MustCompile(`example\.(com|org)|192\.0\.2\.`).MatchString(value):
			t.Errorf("%s=%s is neither the default %q nor an example", name, value, standard)
		}
	}
	if shown < 8 {
		t.Errorf("only %d variables were found", shown)
	}
}
