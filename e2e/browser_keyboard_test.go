package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// listener uses pages as people do who have a keyboard and a screen reader, and neither a mouse nor a screen: it
// presses keys, and reads the accessibility tree.
type listener struct {
	*browser
	unseen map[string]bool // controls with the focus that a sighted user would not find, reported once
}

func newListener(b *browser) *listener { return &listener{b, map[string]bool{}} }

// spoken is a node of the accessibility tree.
type spoken struct {
	Role, Name string
	Text       string // of the node and all below it
	Live       bool   // changes are read aloud
	Focused    bool
}

func textOf(v *accessibility.Value) (text string) {
	if v != nil {
		_ = json.Unmarshal(v.Value, &text) // other values are no text
	}
	return text
}

// brief returns a context for one question to the browser, which may not answer while a page is left.
func (l *listener) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.ctx, 5*time.Second)
}

// tree returns the accessibility tree of the page.
func (l *listener) tree() ([]spoken, error) {
	ctx, cancel := l.brief()
	defer cancel()
	all, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		return nil, err
	}
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range all.Nodes {
		byID[n.NodeID] = n
	}
	var texts func(n *accessibility.Node) []string
	texts = func(n *accessibility.Node) (some []string) {
		if n == nil {
			return nil
		}
		if textOf(n.Role) == "StaticText" {
			return []string{textOf(n.Name)}
		}
		for _, id := range n.ChildIDs {
			some = append(some, texts(byID[id])...)
		}
		return some
	}
	var list []spoken
	for _, n := range all.Nodes {
		if role := textOf(n.Role); !n.Ignored && role != "InlineTextBox" {
			list = append(list, heard(n, strings.Join(texts(n), " ")))
		}
	}
	return list, nil
}

func heard(n *accessibility.Node, text string) spoken {
	one := spoken{Role: textOf(n.Role), Name: textOf(n.Name), Text: text}
	for _, p := range n.Properties {
		switch p.Name {
		case accessibility.PropertyNameLive:
			how := textOf(p.Value)
			one.Live = how == "polite" || how == "assertive"
		case accessibility.PropertyNameFocused:
			one.Focused = string(p.Value.Value) == "true"
		}
	}
	return one
}

// awaits waits until a node of the tree is as it should be.
func (l *listener) awaits(t *testing.T, what string, is func(spoken) bool) {
	t.Helper()
	var last []spoken
	found := false
	defer func() {
		if !found {
			t.Logf("the tree is\n%+v", last)
		}
	}()
	testkit.Eventually(t, what, func() bool {
		nodes, err := l.tree()
		if err == nil {
			last = nodes
			found = slices.ContainsFunc(nodes, is)
		}
		return found
	})
}

// sees waits for a node with a role, and a name that contains a text.
func (l *listener) sees(t *testing.T, role, name string) {
	t.Helper()
	l.awaits(t, fmt.Sprintf("the tree has a %s %q", role, name), func(n spoken) bool {
		return n.Role == role && strings.Contains(n.Name, name)
	})
}

// hears waits until a text is read aloud without being looked for: in a live region, or because it has the focus.
func (l *listener) hears(t *testing.T, text string) {
	t.Helper()
	l.awaits(t, fmt.Sprintf("%q is read aloud", text), func(n spoken) bool {
		return (n.Live || n.Focused && n.Role != "RootWebArea") && strings.Contains(n.Text, text)
	})
}

// where describes the focused element, and says why a sighted user would not find it.
const where = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) return "";
	const s = getComputedStyle(e), r = e.getClientRects()[0];
	if (!r) return "it is not on the page";
	const x = r.left + Math.min(r.width, 40) / 2, y = r.top + Math.min(r.height, 40) / 2;
	if (x < 0 || y < 0 || x > innerWidth || y > innerHeight) return "it is outside of the window, at " + x + ", " + y;
	const at = document.elementFromPoint(x, y);
	if (!e.contains(at) && !at.contains(e) && !(at.control === e)) return "it is covered by " + at.outerHTML.slice(0, 100);
	return s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2 ? "nothing shows that it has the focus" : "";
})()`

// focused returns the element with the focus; its role is empty while none has it.
func (l *listener) focused(t *testing.T) (one spoken) {
	t.Helper()
	testkit.Eventually(t, "the page says which element has the focus", func() bool { // not while another one is loaded
		ctx, cancel := l.brief()
		defer cancel()
		at, err := chromedp.Run(ctx, chromedp.Evaluate[*runtime.RemoteObject](
			`document.activeElement === document.body ? null : document.activeElement`))
		if err != nil || at.ObjectID == "" {
			return err == nil && l.parsed()
		}
		no := false
		got, err := chromedp.Call(ctx, accessibility.GetPartialAXTree,
			accessibility.GetPartialAXTreeParams{ObjectID: at.ObjectID, FetchRelatives: &no})
		if err != nil || len(got.Nodes) == 0 {
			return false
		}
		one = heard(got.Nodes[0], "")
		return true
	})
	if one.Role == "" {
		return one
	}
	ctx, cancel := l.brief()
	defer cancel()
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[string](where))
	if err != nil {
		return one // the page is left
	}
	what := one.Role + " " + one.Name
	if one.Name == "" && !slices.Contains([]string{"status", "alert", "main", "paragraph"}, one.Role) {
		wrong = "it has no name"
	}
	if wrong != "" && !l.unseen[what] {
		l.unseen[what] = true
		t.Errorf("the focus on the %s: %s", what, wrong)
	}
	return one
}

// mostStops is how often Tab is pressed until a control must have been reached.
const mostStops = 150

// goTo presses Tab until a control with a role, and a name that begins with a text, has the focus.
func (l *listener) goTo(t *testing.T, role, name string) {
	t.Helper()
	testkit.Eventually(t, "the page is loaded", l.complete) // before, nothing shows the focus as it will be shown
	var passed []string
	for range mostStops {
		at := l.focused(t)
		if at.Role == role && strings.HasPrefix(at.Name, name) {
			return
		}
		passed = append(passed, at.Role+" "+at.Name)
		l.do(t, chromedp.KeyEvent("\t"))
	}
	t.Fatalf("Tab does not reach the %s %q; it passes %q", role, name, passed)
}

// activate goes to a control and presses its key.
func (l *listener) activate(t *testing.T, role, name string) {
	t.Helper()
	l.goTo(t, role, name)
	t.Logf("press %s %q", role, name)
	if role == "link" {
		l.do(t, chromedp.KeyEvent("\r"))
	} else {
		l.do(t, chromedp.KeyEvent(" "))
	}
}

// write goes to a field and replaces its content.
func (l *listener) write(t *testing.T, name, text string) {
	t.Helper()
	l.goTo(t, "textbox", name)
	l.do(t, chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(text))
}

// choose presses the button of a file input, and answers the dialog of the browser with a zip of files.
func (l *listener) choose(t *testing.T, name string, files ...string) {
	t.Helper()
	var entries []entry
	for i := 0; i < len(files); i += 2 {
		entries = append(entries, entry{files[i], 0o644, files[i+1]})
	}
	file := filepath.Join(t.TempDir(), "app.zip")
	if err := os.WriteFile(file, zipWith(t, entries...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(l.ctx, page.SetInterceptFileChooserDialog,
		page.SetInterceptFileChooserDialogParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	opened := make(chan cdp.BackendNodeID, 1)
	events := chromedp.Events(l.ctx, page.FileChooserOpened)
	go func() {
		for e, err := range events {
			if err == nil {
				opened <- e.BackendNodeID
			}
			return
		}
	}()
	l.activate(t, "button", name)
	var id cdp.BackendNodeID
	testkit.Eventually(t, "the dialog to choose a file is open", func() bool {
		select {
		case id = <-opened:
			return true
		default:
			return false
		}
	})
	if _, err := chromedp.Call(l.ctx, dom.SetFileInputFiles,
		dom.SetFileInputFilesParams{Files: []string{file}, BackendNodeID: id}); err != nil {
		t.Fatal(err)
	}
}
