package system

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// exchange is one request of a session and its answer.
type exchange struct {
	name string
	// names are of the new ids in the answer, in their order; further ones are numbered.
	names string
	// until repeats the request until the answer has this text.
	until           string
	request, answer string
	// changed is why today's answer differs from the recorded one.
	changed, today string
}

// The lines that divide the file of a session.
const (
	exchangeLine = "=== "
	namesLine    = "# names "
	untilLine    = "# until "
	answerLine   = "--- answer\n"
	changedLine  = "--- today, because "
)

// readSession parses the file of a session: comments, then exchanges.
func readSession(t *testing.T, text string) (head string, all []exchange) {
	t.Helper()
	parts := strings.Split("\n"+text, "\n"+exchangeLine)
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		e := exchange{name: name}
		if after, found := strings.CutPrefix(rest, namesLine); found {
			e.names, rest, _ = strings.Cut(after, "\n")
		}
		if after, found := strings.CutPrefix(rest, untilLine); found {
			e.until, rest, _ = strings.Cut(after, "\n")
		}
		request, answer, found := strings.Cut(rest+"\n", answerLine)
		if !found {
			t.Fatalf("%q has no answer", name)
		}
		// Only what an error says may change: the status and headers but Content-Length stay.
		if recorded, today, found := strings.Cut(answer, "\n"+changedLine); found {
			answer = recorded + "\n"
			e.changed, e.today, _ = strings.Cut(strings.TrimSuffix(today, "\n"), "\n")
			if withoutBody(recorded) != withoutBody(e.today) {
				t.Errorf("%s: more than the body of the answer changed", name)
			}
		}
		e.request, e.answer = strings.TrimSuffix(request, "\n"), strings.TrimSuffix(answer, "\n")
		all = append(all, e)
	}
	return strings.TrimPrefix(parts[0], "\n"), all
}

func withoutBody(answer string) string {
	head, _, _ := strings.Cut(answer, "\n\n")
	return regexp.MustCompile(`Content-Length: \d+`).ReplaceAllString(head, "")
}

// text is the exchange in the file of a session.
func (e exchange) text() string {
	out := exchangeLine + e.name + "\n"
	if e.names != "" {
		out += namesLine + e.names + "\n"
	}
	if e.until != "" {
		out += untilLine + e.until + "\n"
	}
	out += e.request + "\n" + answerLine + e.answer + "\n"
	if e.changed != "" {
		out += changedLine + e.changed + "\n" + e.today + "\n"
	}
	return out
}

// expected is what the answer has to be.
func (e exchange) expected() string {
	if e.changed != "" {
		return e.today
	}
	return e.answer
}

// The rules by which answers are compared: everything else is compared byte by byte.
var (
	// An id is named when it appears first, and later appearances must be of the same.
	idForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// A time shows that it is one, in UTC, with or without a fraction.
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	// These headers have values of the moment.
	momentForms = map[string]*regexp.Regexp{
		"Date":                regexp.MustCompile(`^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`),
		"Ratelimit-Reset":     regexp.MustCompile(`^\d+$`),
		"Ratelimit-Remaining": regexp.MustCompile(`^(20000|199\d\d)$`),
		// One that the request does not have.
		"X-Vcap-Request-Id": regexp.MustCompile("^" + idForm.String() + "$"),
	}
	// The members of an object by id are in the order of the ids, which are random.
	membersForm = regexp.MustCompile(`^\{("<[^"]*>":\{[^{}]*\},?)+\}\n$`)
	memberForm  = regexp.MustCompile(`"<[^"]*>":\{[^{}]*\}`)
	placeholder = regexp.MustCompile(`<[a-z][a-z0-9 .-]*>`)
)

// names replaces what differs between two runs of a session by names, and back.
type names struct {
	byValue, byName map[string]string
	// next are the names of the next ids; later ones are numbered.
	next []string
	ids  int
}

func newNames() *names { return &names{byValue: map[string]string{}, byName: map[string]string{}} }

// set names a value.
func (n *names) set(name, value string) { n.byValue[value], n.byName[name] = name, value }

// filled is a request with the values of this run.
func (n *names) filled(t *testing.T, request string) string {
	t.Helper()
	for _, id := range idForm.FindAllString(request, -1) {
		n.byValue[id] = id // an id of the session's own, which does not exist
	}
	return placeholder.ReplaceAllStringFunc(request, func(name string) string {
		if value, known := n.byName[name]; known {
			return value
		}
		if strings.Contains(name, " ") {
			t.Fatalf("no answer has had %s", name)
		}
		return name // HTML
	})
}

// name returns the name of a new id.
func (n *names) name() string {
	if len(n.next) > 0 {
		name := n.next[0]
		n.next = n.next[1:]
		return "<" + name + ">"
	}
	n.ids++
	return fmt.Sprintf("<id %d>", n.ids)
}

func (n *names) normalized(text string) string {
	text = idForm.ReplaceAllStringFunc(text, func(id string) string {
		if _, known := n.byValue[id]; !known {
			n.set(n.name(), id)
		}
		return n.byValue[id]
	})
	return timeForm.ReplaceAllStringFunc(text, func(at string) string {
		if strings.Contains(at, ".") {
			return "<time with fraction>"
		}
		return "<time>"
	})
}

// send sends a request on its own connection and returns the normalized answer.
func (n *names) send(t *testing.T, address string, e exchange) string {
	t.Helper()
	head, body, _ := strings.Cut(n.filled(t, e.request), "\n\n")
	first, headers, _ := strings.Cut(head, "\n")
	raw := first + " HTTP/1.1\r\nHost: notifications.example\r\nConnection: close\r\n"
	if headers != "" {
		raw += strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
	}
	if body != "" {
		raw += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	c, err := net.Dial("tcp", address)
	testkit.Must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, raw+"\r\n"+body)
	testkit.Must(t, err)
	answer, err := io.ReadAll(c)
	testkit.Must(t, err)
	n.next = nil
	if e.names != "" {
		n.next = strings.Split(e.names, ", ")
	}
	text, err := n.answer(answer)
	if err != nil {
		t.Fatalf("%s: %v in %q", e.name, err, answer)
	}
	return text
}

// answer normalizes an answer: status line, headers in their order, body.
func (n *names) answer(raw []byte) (string, error) {
	head, _, found := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !found {
		return "", io.ErrUnexpectedEOF
	}
	reader := bufio.NewReader(bytes.NewReader(raw))
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		return "", fmt.Errorf("%q follows the answer", rest)
	}
	body := n.normalized(string(content))
	if membersForm.MatchString(body) {
		members := memberForm.FindAllString(body, -1)
		slices.Sort(members)
		body = "{" + strings.Join(members, ",") + "}\n"
	}
	lines := strings.Split(string(head), "\r\n")
	for i, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch form := momentForms[name]; {
		case name == "Content-Length":
			if value != strconv.Itoa(len(content)) {
				return "", fmt.Errorf("%s, and the body has %d bytes", line, len(content))
			}
			value = strconv.Itoa(len(body)) // of the normalized one
		case form == nil:
			value = n.normalized(value)
		case form.MatchString(value):
			value = "<now>"
		}
		lines[i+1] = name + ": " + value
	}
	return strings.Join(lines, "\n") + "\n\n" + body, nil
}

// play runs a session and returns the answers. Only some answers may be asked for again.
func (n *names) play(t *testing.T, address string, all []exchange) []string {
	t.Helper()
	answers, last := make([]string, len(all)), 0
	defer func() {
		if last < len(all)-1 {
			t.Logf("the last answer, to %s:\n%s", all[last].name, answers[last])
		}
	}()
	for i, e := range all {
		last = i
		testkit.Eventually(t, cmp.Or(e.until, "be answered")+" in "+e.name, func() bool {
			answers[i] = n.send(t, address, e)
			return strings.Contains(answers[i], e.until)
		})
	}
	return answers
}

// firstDifference shows the first line that differs.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d:\n got %s\nwant %s", i+1, x, y)
		}
	}
	return ""
}

// TestSessionRules checks that the rules hide nothing else.
func TestSessionRules(t *testing.T) {
	t.Parallel()
	const a, b = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	answer := func(head, body string) string {
		t.Helper()
		length := "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		text, err := newNames().answer([]byte("HTTP/1.1 200 OK\r\n" + head + length + body))
		testkit.Must(t, err)
		return text
	}
	usual := answer("Date: "+time.Now().UTC().Format(http.TimeFormat)+"\r\n", a+a+b+"2026-01-02T03:04:05.1Z")
	const want = "HTTP/1.1 200 OK\nDate: <now>\nContent-Length: 38\n\n<id 1><id 1><id 2><time with fraction>"
	if usual != want {
		t.Errorf("%s", firstDifference(usual, want))
	}
	different := []string{usual,
		answer("Date: yesterday\r\n", a+a+b+"2026-01-02T03:04:05.1Z"),
		answer("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n", a+b+b+"2026-01-02T03:04:05.1Z"),
		answer("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n", a+a+b+"2026-01-02T03:04:05Z"),
		answer("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n", a+a+b+"2026-01-02T03:04:05.1+00:00"),
		answer("date: Mon, 02 Jan 2006 15:04:05 GMT\r\n", a+a+b+"2026-01-02T03:04:05.1Z"),
		answer("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\nX: y\r\n", a+a+b+"2026-01-02T03:04:05.1Z"),
		answer("Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n", a+a+b+"2026-01-02T03:04:05.1Z "),
	}
	slices.Sort(different)
	if n := len(different); len(slices.Compact(different)) != n {
		t.Error("two answers that differ are normalized to the same")
	}
	if _, err := newNames().answer([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab")); err == nil {
		t.Error("bytes after an answer are accepted")
	}
	for text, same := range map[string]bool{
		`{"` + a + `":{"x":1},"` + b + `":{"y":2}}`: true,
		`{"` + b + `":{"y":2},"` + a + `":{"x":1}}`: true,
		`{"` + b + `":{"x":1},"` + a + `":{"y":2}}`: false,
	} {
		n := newNames()
		n.set("<a>", a)
		n.set("<b>", b)
		got, err := n.answer([]byte("HTTP/1.1 200 OK\r\n\r\n" + text + "\n"))
		testkit.Must(t, err)
		if strings.HasSuffix(got, `{"<a>":{"x":1},"<b>":{"y":2}}`+"\n") != same {
			t.Errorf("%s is normalized to %s", text, got)
		}
	}
}
