package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const outgoingReason = "operators give the server their own certificate authorities with --trusted-ca, and a client " +
	"that does not get its TLS configuration from internal/server/roots fails for them. Take a *tls.Config in the " +
	"options, set it as TLSClientConfig, and let internal/system pass roots.TLS()"

// otherTLS are files that may create a TLS configuration or an HTTP client of their own,
// each for its reason.
var otherTLS = map[string]string{
	"internal/server/succession/watchdog.go":       "it asks the listener of its own process, without TLS",
	"internal/server/support/server.go":            "it asks the admin address of this machine, without TLS",
	"internal/server/roots/roots.go":               "it is the source",
	"internal/platform/instance/agentproto/tls.go": "servers and agents have an authority of their own",
	"internal/server/certs/config.go":              "it is for connections of clients",
	"internal/server/handover/gate.go":             "it connects to a socket in the data directory",
	"cmd/ingot/demo_linux.go":                      "it calls the server of this machine, without TLS",
	"internal/broker/check/probe.go":               "a command for authors of brokers, which runs on their machine",
	"internal/platform/storage/blob/s3/config.go": "a ca-file in the URL replaces the configuration it is given; the " +
		"other client calls the cloud's metadata service, which has no TLS",
	"internal/platform/logs/drain/target.go": "the default for a nil configuration; a drain can have its own " +
		"authority",
	"internal/notify/mail/smtp/config.go": "the default for a nil configuration",
}

// TestOutgoingClients checks that every outgoing TLS client can be given the shared
// certificate authorities, and that internal/system gives them to it.
func TestOutgoingClients(t *testing.T) {
	t.Parallel()
	all := map[string][]byte{}
	var system []string
	for _, p := range packages(t) {
		// The client runs on the user's machine, with the certificates there.
		if !supervised.has(p.path()) || p.forTests() || match("internal/cli/...", p.path()) {
			continue
		}
		for _, name := range p.sources() {
			file := path.Join(p.path(), name)
			all[file] = read(t, p.Dir, name)
			if p.path() == "internal/system" {
				system = append(system, file)
			}
		}
	}
	violations, used, err := checkOutgoing(all, system)
	if err != nil {
		t.Fatal(err)
	}
	for file := range otherTLS {
		if !slices.Contains(used, file) {
			violations = append(violations, file+" is an exception, but creates no client")
		}
	}
	report(t, outgoingReason, violations)
}

// checkOutgoing returns the violations in all files, and the files whose exceptions were
// used. Structs with a field *tls.Config must be given one in the files of system.
func checkOutgoing(all map[string][]byte, system []string) (violations, used []string, err error) {
	files := token.NewFileSet()
	options := map[string]string{} // package/Type: field
	parsed := map[string]*ast.File{}
	for name, source := range all {
		f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		parsed[name] = f
		for structName, field := range configFields(f) {
			options[path.Dir(name)+"."+structName] = field
		}
	}
	for name, f := range parsed {
		for _, found := range ownClients(files, f) {
			if otherTLS[name] != "" {
				used = append(used, name)
				continue
			}
			violations = append(violations, found)
		}
	}
	for _, name := range system {
		violations = append(violations, notGiven(files, parsed[name], options)...)
	}
	slices.Sort(violations)
	return violations, used, nil
}

// configFields returns the structs with a field of the type *tls.Config, and its name.
func configFields(f *ast.File) map[string]string {
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		of, ok := spec.Type.(*ast.StructType)
		if !ok || !spec.Name.IsExported() {
			return true
		}
		for _, field := range of.Fields.List {
			if star, ok := field.Type.(*ast.StarExpr); ok && selected(star.X) == "tls.Config" && len(field.Names) > 0 &&
				field.Names[0].IsExported() {
				out[spec.Name.Name] = field.Names[0].Name
			}
		}
		return true
	})
	return out
}

// selected returns a selector as text, such as tls.Config.
func selected(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// sets reports whether a composite literal sets a field.
func sets(l *ast.CompositeLit, field string) bool {
	return slices.ContainsFunc(l.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && key.Name == field
	})
}

// ownClients finds clients whose TLS configuration cannot be given.
func ownClients(files *token.FileSet, f *ast.File) (out []string) {
	add := func(n ast.Node, what string) {
		at := files.Position(n.Pos())
		out = append(out, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, what))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			switch selected(n.Type) {
			case "http.Transport":
				if !sets(n, "TLSClientConfig") {
					add(n, "http.Transport without TLSClientConfig")
				}
			case "http.Client":
				if !sets(n, "Transport") {
					add(n, "http.Client without Transport")
				}
			case "tls.Config":
				add(n, "tls.Config of its own")
			}
		case *ast.SelectorExpr:
			switch name := selected(n); name {
			case "http.DefaultClient", "http.DefaultTransport", "http.Get", "http.Post", "http.PostForm", "http.Head":
				add(n, name)
			}
		}
		return true
	})
	return out
}

// notGiven finds options that are created without their TLS configuration.
func notGiven(files *token.FileSet, f *ast.File, options map[string]string) (out []string) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		at := strings.Trim(i.Path.Value, `"`)
		name := path.Base(at)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = inModule(at)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		l, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		pkg, name, ok := strings.Cut(selected(l.Type), ".")
		if field := options[imports[pkg]+"."+name]; ok && field != "" && !sets(l, field) {
			at := files.Position(l.Pos())
			out = append(out, fmt.Sprintf("%s:%d: %s.%s without %s", at.Filename, at.Line, pkg, name, field))
		}
		return true
	})
	return out
}

func TestOutgoingClientsChecker(t *testing.T) {
	t.Parallel()
	all := map[string][]byte{
		"internal/a/a.go": []byte(`package a
import ("crypto/tls"; "net/http")
type Options struct { TLS *tls.Config }
type Other struct { name string }
func f(o Options) {
	_ = &http.Client{Transport: &http.Transport{TLSClientConfig: o.TLS}}
	_ = &http.Client{}
	_ = &http.Transport{Proxy: nil}
	_ = &tls.Config{}
	_, _ = http.Get("")
}
`),
		"internal/system/s.go": []byte(`package system
import "ingot/internal/a"
var good, bad, other = a.Options{TLS: nil}, a.Options{}, a.Other{}
`),
	}
	got, _, err := checkOutgoing(all, []string{"internal/system/s.go"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got,
		"internal/a/a.go:10: http.Get",
		"internal/a/a.go:7: http.Client without Transport",
		"internal/a/a.go:8: http.Transport without TLSClientConfig",
		"internal/a/a.go:9: tls.Config of its own",
		"internal/system/s.go:3: a.Options without TLS")
}
