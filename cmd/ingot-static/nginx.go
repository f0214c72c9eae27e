package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// nginxConf is the command of the nginx buildpack:
//
//	ingot-static nginx-conf [-modules DIR:DIR] [-temp DIR] FILE
//
// It executes the application's nginx.conf, and the files it includes, as
// templates with the functions of Cloud Foundry's buildpack: {{port}},
// {{env "NAME"}}, {{module "NAME"}} and {{nameservers}}. The files are rewritten
// in place. It adds the directives that nginx needs to run as an application,
// unless the file has them: stay in the foreground, log to the standard streams,
// and keep temporary files in DIR.
func nginxConf(args []string) error {
	flags := flag.NewFlagSet("nginx-conf", flag.ContinueOnError)
	modules := flags.String("modules", "", "directories of modules, separated by ':'")
	temp := flags.String("temp", os.TempDir(), "directory for temporary files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("nginx-conf takes the name of one file")
	}
	n := nginx{temp: *temp, file: flags.Arg(0)}
	for dir := range strings.SplitSeq(*modules, ":") {
		if dir != "" {
			n.modules = append(n.modules, dir)
		}
	}
	return n.rewrite()
}

type nginx struct {
	file    string
	temp    string
	modules []string
}

const maxConf = 4 << 20

// errNoPort means that the application would not listen on $PORT.
var errNoPort = errors.New("nginx.conf has no {{port}}: the app has to listen on the port that the platform gives " +
	"it. Write: listen {{port}};")

func (n *nginx) rewrite() error {
	main, err := n.fill(n.file)
	if err != nil {
		return err
	}
	texts := map[string]string{n.file: main.text}
	port := main.port
	for _, level := range []*[]directive{&main.directives, &main.http} {
		// Included files may include others.
		for i := 0; i < len(*level) && len(texts) < 100; i++ {
			d := (*level)[i]
			if d.name != "include" || len(d.args) != 1 {
				continue
			}
			for _, name := range n.included(d.args[0]) {
				if _, seen := texts[name]; seen {
					continue
				}
				more, err := n.fill(name)
				if err != nil {
					return err
				}
				texts[name] = more.text
				port = port || more.port
				*level = append(*level, more.directives...)
			}
		}
	}
	for _, name := range n.deeper(main, texts) {
		more, err := n.fill(name)
		if err != nil {
			return err
		}
		texts[name] = more.text
		port = port || more.port
	}
	if !port {
		return errNoPort
	}
	texts[n.file] = n.complete(main)
	for name, text := range texts {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// deeper returns the application's files that are included by blocks inside http.
func (n *nginx) deeper(main conf, texts map[string]string) []string {
	var names []string
	for _, d := range main.inner {
		if d.name != "include" || len(d.args) != 1 {
			continue
		}
		for _, name := range n.included(d.args[0]) {
			if _, seen := texts[name]; !seen && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// included returns the application's files that match an include. Files of the
// machine are not templates.
func (n *nginx) included(pattern string) []string {
	dir := filepath.Dir(n.file)
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool {
		rel, err := filepath.Rel(dir, name)
		info, statErr := os.Lstat(name)
		return err != nil || strings.HasPrefix(rel, "..") || statErr != nil || !info.Mode().IsRegular() ||
			filepath.Base(name) == "mime.types"
	})
}

// conf is a configuration after its template was executed.
type conf struct {
	text       string
	port       bool        // the template uses {{port}}
	directives []directive // outside all blocks
	http       []directive // of the http block
	inner      []directive // of blocks inside it, and of others
	httpAt     int         // offset of the http block's content, 0 if it has none
}

type directive struct {
	name string
	args []string
}

func (n *nginx) fill(name string) (conf, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return conf{}, fmt.Errorf("%s is not there: it has to be in the folder that is pushed", filepath.Base(name))
	}
	if err != nil {
		return conf{}, err
	}
	if info.Size() > maxConf {
		return conf{}, fmt.Errorf("%s is larger than %d MB", filepath.Base(name), maxConf>>20)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return conf{}, err
	}
	var c conf
	port := func() string {
		c.port = true
		return os.Getenv("PORT")
	}
	t, err := template.New(filepath.Base(name)).Option("missingkey=zero").Funcs(template.FuncMap{
		"port": port, "env": os.Getenv, "module": n.module, "nameservers": nameServers,
	}).Parse(string(raw))
	if err != nil {
		return conf{}, err
	}
	var out strings.Builder
	// {{.Port}} is the older spelling of {{port}}.
	if err := t.Execute(&out, portOf(port)); err != nil {
		return conf{}, err
	}
	c.text = out.String()
	c.parse()
	return c, nil
}

type portOf func() string

// Port returns the port to listen on.
func (p portOf) Port() string { return p() }

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// module returns the directive that loads a module: the application's own, or one
// of the machine.
func (n *nginx) module(name string) (string, error) {
	if !moduleName.MatchString(name) {
		return "", fmt.Errorf("%q is no name of a module", name)
	}
	for _, dir := range n.modules {
		file := filepath.Join(dir, name+".so")
		if _, err := os.Stat(file); err == nil {
			return "load_module " + file + ";", nil
		}
	}
	return "",
		fmt.Errorf("there is no module %s.so in %s: push it in the folder modules/, or ask the operator of the machine to "+
			"install it (on Debian: libnginx-mod-…)",
			name, strings.Join(n.modules, ", "))
}

// nameServers returns the name servers of the machine, for the resolver
// directive.
func nameServers() string {
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return "127.0.0.1"
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			server := f[1]
			if strings.Contains(server, ":") {
				server = "[" + server + "]"
			}
			list = append(list, server)
		}
	}
	if len(list) == 0 {
		return "127.0.0.1"
	}
	return strings.Join(list, " ")
}

// parse finds the directives and the blocks that they are in.
func (c *conf) parse() {
	var blocks, words []string
	put := func(name string, args []string) {
		d := directive{name, slices.Clone(args)}
		switch {
		case len(blocks) == 0:
			c.directives = append(c.directives, d)
		case len(blocks) == 1 && blocks[0] == "http":
			c.http = append(c.http, d)
		default:
			c.inner = append(c.inner, d)
		}
	}
	for i := 0; i < len(c.text); {
		switch ch := c.text[i]; {
		case ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n':
			i++
		case ch == '#':
			for i < len(c.text) && c.text[i] != '\n' {
				i++
			}
		case ch == ';' || ch == '{' || ch == '}':
			i++
			if len(words) > 0 && ch != '}' {
				put(words[0], words[1:])
			}
			switch {
			case ch == '{' && len(words) > 0:
				if words[0] == "http" && len(blocks) == 0 {
					c.httpAt = i
				}
				blocks = append(blocks, words[0])
			case ch == '{':
				blocks = append(blocks, "")
			case ch == '}' && len(blocks) > 0:
				blocks = blocks[:len(blocks)-1]
			}
			words = words[:0]
		default:
			word, next := readWord(c.text, i)
			words = append(words, word)
			i = next
		}
	}
}

// readWord reads a word or a quoted text at i, and returns where it ends.
func readWord(text string, i int) (string, int) {
	if quote := text[i]; quote == '"' || quote == '\'' {
		for end := i + 1; end < len(text); end++ {
			switch text[end] {
			case '\\':
				end++
			case quote:
				return text[i+1 : end], end + 1
			}
		}
		return text[i+1:], len(text)
	}
	end := i
	for end < len(text) && !strings.ContainsRune(" \t\r\n;{}", rune(text[end])) {
		switch {
		case text[end] == '\\':
			end++
		case text[end] == '$' && end+1 < len(text) && text[end+1] == '{':
			// A variable: its braces are not a block.
			for end < len(text) && text[end] != '}' {
				end++
			}
		}
		end++
	}
	end = min(max(end, i+1), len(text))
	return text[i:end], end
}

func lacks(list []directive, name string) bool {
	return !slices.ContainsFunc(list, func(d directive) bool { return d.name == name })
}

// complete adds missing directives. Nginx's defaults are files of the machine,
// which an application may not write.
func (n *nginx) complete(c conf) string {
	var head, http strings.Builder
	for _, d := range []directive{
		{"daemon", []string{"off"}},
		{"pid", []string{filepath.Join(n.temp, "nginx.pid")}},
		{"error_log", []string{"stderr"}},
	} {
		if lacks(c.directives, d.name) {
			head.WriteString(d.name + " " + strings.Join(d.args, " ") + ";\n")
		}
	}
	if c.httpAt == 0 {
		return head.String() + c.text
	}
	if lacks(c.http, "access_log") {
		http.WriteString(" access_log /dev/stdout;")
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		if name := kind + "_temp_path"; lacks(c.http, name) {
			http.WriteString(" " + name + " " + filepath.Join(n.temp, kind) + ";")
		}
	}
	return head.String() + c.text[:c.httpAt] + http.String() + c.text[c.httpAt:]
}
