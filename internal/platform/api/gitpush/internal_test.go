package gitpush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/storage/gitpack"
)

func TestLines(t *testing.T) {
	t.Parallel()
	text := appendLine(appendLine(nil, "one\n"), "")
	in := bytes.NewReader(append(text, "0000"...))
	for _, want := range []string{"one", ""} {
		if line, flush, err := readLine(in); err != nil || flush || string(line) != want {
			t.Errorf("read %q, %v, %v, want %q", line, flush, err, want)
		}
	}
	if _, flush, err := readLine(in); err != nil || !flush {
		t.Errorf("the end of the list: %v, %v", flush, err)
	}
	if _, _, err := readLine(in); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	for _, bad := range []string{"xxxx", "0003", "0001", "fff1" + strings.Repeat("x", 65600), "0008ab", "-001"} {
		if _, _, err := readLine(strings.NewReader(bad)); !errors.Is(err, errProtocol) {
			t.Errorf("%.10q: %v, want it refused", bad, err)
		}
	}
}

func TestBands(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := bands{w: &out}
	long := strings.Repeat("x", 70_000)
	if _, err := b.Write([]byte(long)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.send(bandProgress, nil), b.end()); err != nil {
		t.Fatal(err)
	}
	got := ""
	for {
		line, flush, err := readLine(&out)
		if err != nil {
			t.Fatal(err)
		}
		if flush {
			break
		}
		if line[0] == bandData {
			got += string(line[1:])
		} else if string(line) != "\x02" {
			t.Errorf("progress is %q", line)
		}
	}
	if got != long {
		t.Errorf("%d bytes arrive, want %d", len(got), len(long))
	}
	if text := oneLine(" a\x1b[2J\u009bb\n", 100); text != "a [2J b" {
		t.Errorf("a line is %q", text)
	}
	if text := oneLine("ööö", 3); text != "ö…" {
		t.Errorf("a cut line is %q", text)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	var s slots
	enter := func(user, org, app, want string) func() {
		t.Helper()
		leave, err := s.enter(user, org, app)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("%s pushes %s: %v, want %q", user, app, err, want)
		}
		return leave
	}
	first := enter("u1", "o1", "a1", "")
	enter("u2", "o2", "a1", "another push to this app")
	second := enter("u1", "o2", "a2", "")
	enter("u1", "o3", "a3", "2 by you: push")
	third := enter("u2", "o1", "a3", "")
	enter("u3", "o1", "a4", "2 by the organization: push")
	first()
	enter("u3", "o1", "a1", "")()
	second()
	third()
	if s.all != 0 || len(s.users)+len(s.orgs)+len(s.apps) != 0 {
		t.Errorf("left after all: %+v", &s)
	}
	// Two organizations with two pushes each leave room for one of every other one.
	enter("0", "0", "0", "")
	enter("00", "0", "00", "")
	enter("1", "1", "1", "")
	enter("11", "1", "11", "")
	for i := 4; i < pushesOfAll; i++ {
		name := fmt.Sprint(i)
		enter(name, name, name, "")
		enter(name+"'", name, name+"'", fmt.Sprint(i+1)+" of 8 slots")
		enter(name, name+"'", name+"'", fmt.Sprint(i+1)+" of 8 slots")
	}
	enter("x", "x", "x", "8 of 8 slots")
}

// TestRefusals: a refused push is told what helps, and that helps.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const me, us = "me", "us"
	type by struct{ user, org string }
	mine, ours, theirs, both := by{me, "other"}, by{"other", us}, by{"", ""}, by{me, us}
	for _, c := range []struct {
		pushes []by
		ends   []int // the fewest that have to end
		want   string
	}{
		{[]by{mine, mine}, []int{0},
			"2 of 8 slots for pushes are in use, 2 by you: push again when one of yours is done"},
		{[]by{ours, ours, theirs}, []int{1},
			"3 of 8 slots for pushes are in use, 2 by the organization: push again when one of the organization's is done"},
		{[]by{ours, ours, mine}, []int{0}, "3 of 8 slots for pushes are in use, 1 by you and 2 by the organization: push " +
			"again when one of the organization's is done"},
		{[]by{both, both, theirs, theirs}, []int{0}, "4 of 8 slots for pushes are in use, 2 by you and 2 by the " +
			"organization: push again when one of yours and one of the organization's are done"},
		{[]by{mine, mine, theirs, theirs, theirs}, []int{0, 1},
			"5 of 8 slots for pushes are in use, 2 by you: push again when yours are done"},
		{[]by{mine, theirs, theirs, theirs, theirs}, []int{0},
			"5 of 8 slots for pushes are in use, 1 by you: push again when yours is done or fewer than 4 are in use"},
		{[]by{mine, theirs, theirs, theirs, theirs}, []int{1, 2},
			"5 of 8 slots for pushes are in use, 1 by you: push again when yours is done or fewer than 4 are in use"},
		{[]by{ours, theirs, theirs, theirs}, []int{2}, "4 of 8 slots for pushes are in use, 1 by the organization: push " +
			"again when the organization's is done or fewer than 4 are in use"},
		{[]by{mine, ours, theirs, theirs, theirs}, []int{0, 1}, "5 of 8 slots for pushes are in use, 1 by you and 1 by the " +
			"organization: push again when yours and the organization's are done or fewer than 4 are in use"},
		{append([]by{both}, make([]by, 7)...), []int{0}, "8 of 8 slots for pushes are in use, 1 by you and 1 by the " +
			"organization: push again when yours and the organization's are done or fewer than 4 are in use"},
		{make([]by, 8), []int{5},
			"8 of 8 slots for pushes are in use: push again when one is free"},
	} {
		var s slots
		var leave []func()
		for i, p := range c.pushes {
			s.all++ // as if the others had begun before
			if s.users == nil {
				s.users, s.orgs, s.apps = map[string]int{}, map[string]int{}, map[string]bool{}
			}
			user, org := p.user+fmt.Sprint(i), p.org+fmt.Sprint(i)
			if p.user == me {
				user = me
			}
			if p.org == us {
				org = us
			}
			s.users[user]++
			s.orgs[org]++
			leave = append(leave, func() {
				s.all--
				give(s.users, user)
				give(s.orgs, org)
			})
		}
		for i := 0; ; i++ {
			_, err := s.enter(me, us, "app")
			if i == len(c.ends) {
				if err != nil {
					t.Errorf("%v: after %d ended: %v", c.pushes, c.ends, err)
				}
				break
			}
			if !fault.Is(err, fault.RateLimited) || i == 0 && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%v: %d ended: %v, want %q", c.pushes, i, err, c.want)
				break
			}
			leave[c.ends[i]]()
		}
	}
}

func hash(b byte) gitpack.Hash { return gitpack.Hash(bytes.Repeat([]byte{b}, 20)) }

func TestCommands(t *testing.T) {
	t.Parallel()
	line := func(from, to gitpack.Hash, ref string) string { return from.String() + " " + to.String() + " " + ref }
	var zero gitpack.Hash
	app := &platform.App{DropletGUID: "droplet"}
	kept := &stored{ref: "refs/heads/main", commit: hash(1), droplet: "droplet"}
	other := &stored{ref: "refs/heads/master", commit: hash(1), droplet: "an older one"}
	for _, c := range []struct {
		kept  *stored
		lines []string
		want  []string // why each is refused
	}{
		{&stored{}, []string{line(zero, hash(2), "refs/heads/main")}, []string{""}},
		{&stored{}, []string{line(zero, hash(2), "refs/heads/master")}, []string{""}},
		{&stored{}, []string{line(zero, hash(2), "refs/heads/x"), line(zero, hash(2), "refs/heads/main")},
			[]string{"git push ingot x:main", ""}},
		{&stored{}, []string{line(zero, hash(2), "refs/heads/main"), line(zero, hash(2), "refs/heads/master")},
			[]string{"", "only one branch"}},
		{kept, []string{line(hash(1), hash(2), "refs/heads/main"), line(zero, hash(2), "refs/tags/v1")},
			[]string{"", "tags are not deployed"}},
		{kept, []string{line(hash(3), hash(2), "refs/heads/main")}, []string{"in the meantime"}},
		{kept, []string{line(zero, hash(2), "refs/heads/master")}, []string{"git push ingot master:main"}},
		{kept, []string{line(hash(1), zero, "refs/heads/main")}, []string{"cannot be deleted"}},
		{kept, []string{line(zero, hash(2), "refs/notes/x")}, []string{"only branches"}},
		{other, []string{line(hash(1), hash(2), "refs/heads/master")}, []string{"in the meantime"}},
		{other, []string{line(zero, hash(2), "refs/heads/master")}, []string{""}},
	} {
		p := &push{target: &target{app: app, name: "shop"}, kept: c.kept}
		var text []byte
		for i, l := range c.lines {
			if i == 0 {
				l += "\x00report-status side-band-64k"
			}
			text = appendLine(text, l)
		}
		capabilities, err := p.readCommands(bytes.NewReader(append(text, flushLine...)))
		if err != nil || len(capabilities) != 2 || len(p.commands) != len(c.lines) {
			t.Fatalf("%q: %v, %v", c.lines, capabilities, err)
		}
		chosen := p.choose()
		for i, got := range p.commands {
			if (got.refused == "") != (c.want[i] == "") || !strings.Contains(got.refused, c.want[i]) ||
				(chosen == got) != (c.want[i] == "") {
				t.Errorf("%q: refused because %q, want %q", c.lines[i], got.refused, c.want[i])
			}
		}
	}
	for _, bad := range []string{"hello", line(zero, zero, "x")[1:], "0 1 refs/heads/main"} {
		p := &push{}
		if _, err := p.readCommands(bytes.NewReader(append(appendLine(nil, bad), flushLine...))); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// files are repositories in memory.
type files map[string]string

func (f files) OpenRepository(_ context.Context, app string) (io.ReadCloser, error) {
	text, ok := f[app]
	if !ok {
		return nil, fault.New(fault.NotFound, "none")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (f files) PutRepository(_ context.Context, app string, r io.Reader) error {
	text, err := io.ReadAll(r)
	f[app] = string(text)
	return err
}

// TestRepository has what is kept of a push; a damaged file is as none.
func TestRepository(t *testing.T) {
	t.Parallel()
	f := files{}
	a := &API{Server: &rest.Server{Log: slog.New(slog.DiscardHandler)}, Repositories: f, MaxUpload: 1 << 20}
	objects, err := gitpack.New(t.TempDir(), gitpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	want := stored{ref: "refs/heads/main", commit: hash(7), droplet: "droplet"}
	for _, c := range []struct {
		size    int64
		partial bool
	}{{100, false}, {1 << 20, true}} {
		if err := a.keep(t.Context(), "app", &want, objects, &gitpack.Closure{Bytes: c.size}); err != nil {
			t.Fatal(err)
		}
		s, err := a.repository(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(s.pack)
		if s.ref != want.ref || s.commit != want.commit || s.droplet != want.droplet || s.partial != c.partial ||
			err != nil || bytes.HasPrefix(rest, []byte("PACK")) == c.partial {
			t.Errorf("kept: %+v, %q, %v", s, rest, err)
		}
		if current := s.current(&platform.App{DropletGUID: "droplet"}); current == c.partial {
			t.Errorf("current is %v", current)
		}
		s.Close()
	}
	for _, bad := range []string{"", "x", "ingot-git 2\n\n", "ingot-git 1\na\nb\nc\nd\n\n",
		strings.Repeat("long\n", 2000)} {
		f["app"] = bad
		if s, err := a.repository(t.Context(), "app"); err != nil || s.ref != "" || s.pack != nil {
			t.Errorf("%.20q: %+v, %v, want none", bad, s, err)
		}
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	ignored := func() error { return nil }
	text := appendLine(appendLine(nil, "want "+hash(1).String()+" side-band-64k\n"), "want "+hash(1).String()+"\n")
	text = append(text, flushLine...)
	q, err := readWants(bytes.NewReader(text), ignored)
	if err != nil || len(q.wants) != 2 || !q.bands || q.done {
		t.Errorf("%+v, %v", q, err)
	}
	text = appendLine(appendLine(text, "have "+hash(2).String()+"\n"), "done\n")
	if q, err = readWants(bytes.NewReader(text), ignored); err != nil || !q.done {
		t.Errorf("%+v, %v", q, err)
	}
	// A client may have any number of its own commits.
	before, _, _ := bytes.Cut(text, []byte("0032have"))
	many := slices.Clone(before)
	for range 50_000 {
		many = appendLine(many, "have "+hash(2).String()+"\n")
	}
	many = appendLine(many, "done\n")
	if q, err = readWants(bytes.NewReader(many), ignored); err != nil || !q.done || len(many) > maxHaves {
		t.Errorf("with many commits: %+v, %v", q, err)
	}
	var wanted []byte
	for range maxWants + 1 {
		wanted = appendLine(wanted, "want "+hash(1).String()+"\n")
	}
	if _, err := readWants(bytes.NewReader(wanted), ignored); err == nil {
		t.Error("any number of wants is accepted")
	}
	id := hash(1).String()
	for _, bad := range []string{"want", "deepen 1", "command=fetch", "want ", "want " + id[1:], "want " + id + "0",
		"want  " + id, "want x" + id[1:], "have", "have " + id + " side-band-64k", "have " + id[1:]} {
		if _, err := readWants(bytes.NewReader(appendLine(nil, bad)), ignored); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base   string
		route  platform.Route
		domain platform.Domain
		want   string
	}{
		{"http://127.0.0.1:8080", platform.Route{Host: "shop"}, platform.Domain{Name: "apps.localhost"},
			"http://shop.apps.localhost:8080"},
		{"https://api.example.com", platform.Route{Host: "shop", Path: "/a/b"}, platform.Domain{Name: "example.com"},
			"https://shop.example.com/a/b"},
		{"https://api.example.com:8443", platform.Route{Host: "shop", Path: "/a/b"}, platform.Domain{Name: "example.com"},
			"https://shop.example.com:8443/a/b"},
		{"http://x:1", platform.Route{Host: "shop"}, platform.Domain{Name: "apps.internal", Internal: true},
			"shop.apps.internal"},
		{"http://x:1", platform.Route{Port: 1024, Protocol: platform.ProtocolTCP}, platform.Domain{Name: "tcp.example.com"},
			"tcp.example.com:1024"},
	} {
		base, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := address(base, &c.route, &c.domain); got != c.want {
			t.Errorf("the address is %s, want %s", got, c.want)
		}
	}
}
