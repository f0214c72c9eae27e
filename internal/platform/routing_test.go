package platform

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestCheckDomainName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"example.org": "", "a.b": "", "my_apps.example.org": "", strings.Repeat(strings.Repeat("a", 62)+".", 3) +
			strings.Repeat("b", 63): "",
		"": "can't be blank", "a.": "between 3 and 253", "localhost": "at least one", "10.0.0.1": "not an address",
		strings.Repeat("a.", 127): "between 3 and 253",
		"a..b":                    "RFC 1035", "-a.org": "RFC 1035", "a-.org": "RFC 1035", "a b.org": "RFC 1035",
		strings.Repeat("a", 64) +
			".org": "RFC 1035",
	} {
		refuses(t, name, CheckDomainName(name), want)
	}
}

func TestCheckRoute(t *testing.T) {
	t.Parallel()
	shared, private, internal := &Domain{Name: "apps.example"}, &Domain{Name: "own.example", OrgGUID: "o"},
		&Domain{Name: "apps.internal", Internal: true}
	for _, x := range []struct {
		route  Route
		domain *Domain
		want   string
	}{
		{Route{Host: "a"}, shared, ""}, {Route{Host: "a", Path: "/b/c"}, shared, ""}, {Route{Host: "*"}, shared, ""},
		{Route{Host: "*", Path: "/p"}, private, ""},
		{Route{}, private, ""}, {Route{Host: "a"}, internal, ""},
		{Route{Host: "a", Port: 1}, shared, "do not support ports"}, {Route{Host: "*", Path: "/p"}, shared,
			"Wildcard hosts with a path"}, {Route{}, shared, "Missing host"},
		{Route{Host: "a.b"}, shared, "Host must be either"}, {Route{Host: "-a"}, shared, "Host must be either"},
		{Route{Host: strings.Repeat("a", 64)}, shared, "Host must be either"},
		{Route{Host: "a"}, &Domain{Name: strings.Repeat("d", 252)}, "no more than 253"},
		{Route{Host: "*"}, internal, "Wildcard host names"}, {Route{Host: "a", Path: "/p"}, internal,
			"Paths are not supported"},
		{Route{Host: "a", Path: "/"}, shared, "single slash"}, {Route{Host: "a", Path: "p"}, shared, "start with a slash"},
		{Route{Host: "a", Path: "/p?q"}, shared, "question mark"},
		{Route{Host: "a", Path: "/" + strings.Repeat("p", 128)}, shared, "less than 128"}, {Route{Host: "a", Path: "/a//b"},
			shared, "not a valid path"}, {Route{Host: "a", Path: "/ä"}, shared, "not a valid path"},
	} {
		refuses(t, RouteURL(&x.route, x.domain), CheckRoute(&x.route, x.domain), x.want)
	}
}

func TestRouteNames(t *testing.T) {
	t.Parallel()
	d := &Domain{Name: "example.org", OrgGUID: "own", SharedOrgs: []string{"other"}}
	for want, r := range map[string]*Route{"example.org": {}, "a.example.org": {Host: "a"},
		"a.example.org/p": {Host: "a", Path: "/p"}} {
		if got := RouteURL(r, d); got != want {
			t.Errorf("RouteURL = %q, want %q", got, want)
		}
	}
	for path, want := range map[string]string{"": "", "/": "", "/A/b/": "/a/b", "/a": "/a"} {
		if got := PathKey(path); got != want {
			t.Errorf("PathKey(%q) = %q, want %q", path, got, want)
		}
	}
	for org, want := range map[string]bool{"own": true, "other": true, "third": false} {
		if got := UsableIn(d, org); got != want || !UsableIn(&Domain{}, org) {
			t.Errorf("UsableIn(%q) = %v, want %v, and shared domains usable by all", org, got, want)
		}
	}
}

func TestCheckRouteOptions(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		options map[string]any
		want    string
	}{
		{nil, ""}, {map[string]any{"loadbalancing": "hash", "hash_header": "X", "hash_balance": 1.5}, ""},
		{map[string]any{"hash_balance": "0"}, ""}, {map[string]any{"hash_header": nil, "hash_balance": " "}, ""},
		{map[string]any{"hash_header": 7.0}, "Hash header must be a string"},
		{map[string]any{"hash_header": strings.Repeat("h", 129)}, "Hash header must be at most 128 characters"},
		{map[string]any{"loadbalancing": "round-robin", "hash_header": "X"},
			"Hash header can only be set when loadbalancing is hash"},
		{map[string]any{"hash_balance": strings.Repeat("1", 17)}, "Hash balance must be at most 16 characters"},
		{map[string]any{"hash_balance": "x"}, "Hash balance must be a numeric value"},
		{map[string]any{"hash_balance": 1}, "Hash balance must be either 0 or between 1.1 and 10.0"},
		{map[string]any{"hash_balance": "NaN"}, "Hash balance must be a numeric value"},
		{map[string]any{"loadbalancing": "least-connection", "hash_balance": 2},
			"Hash balance can only be set when loadbalancing is hash"},
	} {
		if got := strings.Join(CheckRouteOptions(x.options), "; "); got != x.want {
			t.Errorf("CheckRouteOptions(%v) = %q, want %q", x.options, got, x.want)
		}
	}
}

func TestMergeRouteOptions(t *testing.T) {
	t.Parallel()
	hash := map[string]string{"loadbalancing": "hash", "hash_header": "X", "hash_balance": "1.5"}
	for _, x := range []struct {
		have  map[string]string
		patch map[string]any
		want  map[string]string // nil: refused
	}{
		{nil, nil, map[string]string{}},
		{nil, map[string]any{"loadbalancing": "hash", "hash_header": "X", "hash_balance": 1.46}, hash},
		{hash, map[string]any{"hash_balance": nil}, map[string]string{"loadbalancing": "hash", "hash_header": "X"}},
		{hash, map[string]any{"loadbalancing": "round-robin"}, map[string]string{"loadbalancing": "round-robin"}},
		{hash, map[string]any{"loadbalancing": nil}, map[string]string{}},
		{nil, map[string]any{"loadbalancing": "hash"}, nil},
		{hash, map[string]any{"hash_header": ""}, nil},
	} {
		got, err := MergeRouteOptions(x.have, x.patch)
		if !maps.Equal(got, x.want) || (err != nil) != (x.want == nil) {
			t.Errorf("MergeRouteOptions(%v, %v) = %v, %v, want %v", x.have, x.patch, got, err, x.want)
		}
	}
	if len(hash) != 3 {
		t.Errorf("the options that a route had are now %v", hash)
	}
	if got := UnknownRouteOptions(map[string]any{"b": 1, "a": 1, "loadbalancing": 1, "hash_header": 1},
		false); !slices.Equal(got, []string{"a", "b", "hash_header"}) {
		t.Errorf("UnknownRouteOptions = %v", got)
	}
	if got := UnknownRouteOptions(map[string]any{"hash_header": 1}, true); len(got) != 0 {
		t.Errorf("UnknownRouteOptions with hash = %v, want none", got)
	}
}

func TestBuildpackNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]bool{ // a URL, Java
		"go_buildpack": {false, false}, "java_buildpack": {false, true}, "java-buildpack-offline": {false, true},
		"https://github.com/cloudfoundry/Java-Buildpack.git#v4": {true, true}, "https://example.org/x.zip": {true, false},
	} {
		if got := [2]bool{IsURL(name), IsJava(name)}; got != want {
			t.Errorf("%s: IsURL and IsJava are %v, want %v", name, got, want)
		}
	}
	got := WithoutPasswords([]string{"go_buildpack", "https://me:secret@example.org/b.git"})
	if strings.Contains(strings.Join(got, " "), "secret") || got[0] != "go_buildpack" ||
		!strings.HasSuffix(got[1], "@example.org/b.git") {
		t.Errorf("WithoutPasswords = %q", got)
	}
	if got := Redacted("https://me:secret@example.org/b"); got != "https://example.org/b" {
		t.Errorf("Redacted = %q", got)
	}
}
