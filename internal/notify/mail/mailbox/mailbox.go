package mailbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
)

// Options configure a Mailbox.
type Options struct {
	// Dir is the directory of the messages. It is created if missing.
	Dir      string
	Identity compose.Identity
	// Messages and Bytes limit what is kept; 0 means 1000 and 64 MiB. The
	// newest message is always kept.
	Messages int
	Bytes    int64
	Log      *slog.Logger
}

// Entry is a message in the list.
type Entry struct {
	Number   int64     `json:"number"`
	ID       string    `json:"id"` // the notification's
	From     string    `json:"from"`
	To       string    `json:"to"`
	Subject  string    `json:"subject"`
	Received time.Time `json:"received"`
	Size     int64     `json:"size"`
}

// Mailbox is a notify.Channel that stores messages instead of sending them.
type Mailbox struct {
	dir      string
	most     int
	bytes    int64
	composer *compose.Composer
	log      *slog.Logger
	cross    http.CrossOriginProtection

	mu      sync.Mutex
	entries []Entry // oldest first
	size    int64
	last    int64
}

var _ notify.Channel = (*Mailbox)(nil)

const suffix = ".mail"

// New opens the mailbox in o.Dir.
func New(o Options) (*Mailbox, error) {
	composer, err := compose.New(o.Identity)
	if err != nil {
		return nil, err
	}
	m := &Mailbox{dir: o.Dir, most: o.Messages, bytes: o.Bytes, composer: composer, log: o.Log}
	if m.most <= 0 {
		m.most = 1000
	}
	if m.bytes <= 0 {
		m.bytes = 64 << 20
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the mailbox: %w", err)
	}
	if err := m.load(); err != nil {
		return nil, fmt.Errorf("open the mailbox: %w", err)
	}
	return m, nil
}

func (m *Mailbox) load() error {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		if strings.HasPrefix(name, ".new-") {
			os.Remove(filepath.Join(m.dir, name)) // incomplete because of a crash
			continue
		}
		number, err := strconv.ParseInt(strings.TrimSuffix(name, suffix), 10, 64)
		if err != nil || !strings.HasSuffix(name, suffix) {
			continue
		}
		m.last = max(m.last, number)
		e, err := m.entry(number)
		if err != nil {
			m.log.Warn("read mailbox message failed", "file", name, "error", err)
			continue
		}
		m.entries = append(m.entries, e)
		m.size += e.Size
	}
	slices.SortFunc(m.entries, func(a, b Entry) int { return int(a.Number - b.Number) })
	m.remove(m.shrink())
	return nil
}

func (m *Mailbox) path(number int64) string {
	return filepath.Join(m.dir, fmt.Sprintf("%016d%s", number, suffix))
}

// entry reads the first line of a message's file, which is its list entry.
func (m *Mailbox) entry(number int64) (Entry, error) {
	f, err := os.Open(m.path(number))
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadBytes('\n')
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, err
	}
	if e.Number != number {
		return Entry{}, fmt.Errorf("file contains message %d", e.Number)
	}
	return e, nil
}

// Deliver implements notify.Channel.
func (m *Mailbox) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	for i := range batch {
		if ctx.Err() != nil {
			done(i, notify.Result{Verdict: notify.Temporary, Reason: "no time left to store the message"})
			continue
		}
		done(i, m.keep(&batch[i]))
	}
}

func (m *Mailbox) keep(o *notify.Outgoing) notify.Result {
	now := time.Now()
	text, err := m.composer.Message(o, now)
	if err != nil {
		return compose.Failure(err)
	}
	m.mu.Lock()
	m.last++
	e := Entry{Number: m.last, ID: o.ID, From: text.From, To: text.To, Subject: shorten(o.Body.Subject),
		Received: now.UTC(), Size: int64(text.Size())}
	m.mu.Unlock()
	if err := m.write(e, text); err != nil {
		m.log.Error("store message in mailbox failed", "error", err)
		return notify.Result{Verdict: notify.Temporary, Reason: "the mailbox cannot store the message: " + plainError(err)}
	}
	m.mu.Lock()
	at, _ := slices.BinarySearchFunc(m.entries, e.Number, func(e Entry, n int64) int { return int(e.Number - n) })
	m.entries = slices.Insert(m.entries, at, e)
	m.size += e.Size
	old := m.shrink()
	m.mu.Unlock()
	m.remove(old)
	return notify.Result{Verdict: notify.Accepted, Reason: "stored in the mailbox"}
}

// plainError describes an error without the path of the data directory.
func plainError(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return "disk error"
}

func shorten(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200]) + "…"
	}
	return s
}

// write writes the file atomically.
func (m *Mailbox) write(e Entry, text *compose.Message) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(m.dir, ".new-*")
	if err != nil {
		return err
	}
	whole := make([]byte, 0, len(line)+1+text.Size())
	whole = append(append(whole, line...), '\n')
	for _, part := range text.Parts() {
		whole = append(whole, part...)
	}
	_, err = f.Write(whole)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), m.path(e.Number))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// shrink removes the oldest entries while there are too many, and returns them.
func (m *Mailbox) shrink() []Entry {
	n := 0
	for size := m.size; n < len(m.entries)-1 && (len(m.entries)-n > m.most || size > m.bytes); n++ {
		size -= m.entries[n].Size
	}
	old := slices.Clone(m.entries[:n])
	for _, e := range old {
		m.size -= e.Size
	}
	m.entries = slices.Delete(m.entries, 0, n)
	return old
}

func (m *Mailbox) remove(old []Entry) {
	for _, e := range old {
		if err := os.Remove(m.path(e.Number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Warn("remove mailbox message failed", "error", err)
		}
	}
}

// Filter selects messages, ignoring case. Empty fields match everything.
type Filter struct {
	To   string // a part of the recipient
	Text string // a part of the recipient, the sender or the subject
}

// List returns at most limit messages (0: all), newest first, and the number of
// all matching ones.
func (m *Mailbox) List(f Filter, limit int) ([]Entry, int) {
	has := func(text, part string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimSpace(part)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, total := []Entry{}, 0
	for _, e := range slices.Backward(m.entries) {
		if !has(e.To, f.To) || !has(e.To, f.Text) && !has(e.From, f.Text) && !has(e.Subject, f.Text) {
			continue
		}
		if total++; limit == 0 || len(found) < limit {
			found = append(found, e)
		}
	}
	return found, total
}

// Message returns a message with its source, or fs.ErrNotExist.
func (m *Mailbox) Message(number int64) (Entry, []byte, error) {
	whole, err := os.ReadFile(m.path(number))
	if err != nil {
		return Entry{}, nil, err
	}
	e, err := m.entry(number)
	if err != nil {
		return Entry{}, nil, err
	}
	return e, whole[slices.Index(whole, '\n')+1:], nil
}

// Clear removes all messages.
func (m *Mailbox) Clear() {
	m.mu.Lock()
	old := m.entries
	m.entries, m.size = nil, 0
	m.mu.Unlock()
	m.remove(old)
}
