package delivery

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// counting counts the contents that are read.
type counting struct {
	*watched
	reads atomic.Int32
	down  atomic.Bool
}

func (c *counting) FileContent(ctx context.Context, clientID, id string) ([]byte, error) {
	c.reads.Add(1)
	if c.down.Swap(false) {
		return nil, errors.New("the database is away")
	}
	return c.watched.FileContent(ctx, clientID, id)
}

// attach stores a file of the shop, and returns a change that attaches it.
func (w *world) attach(id string, content []byte) func(*actions.Request) {
	w.t.Helper()
	if _, err := w.store.PutFile(context.Background(), notify.File{ClientID: "shop", ID: id}, content); err != nil {
		w.t.Fatal(err)
	}
	return func(r *actions.Request) {
		r.Attachments = append(r.Attachments, notify.Attachment{Name: id, Type: "text/plain", ID: id,
			Size: int64(len(content))})
	}
}

// TestAttachmentsShared sends a file to 10,000 recipients: it is read once, and all messages share it.
func TestAttachmentsShared(t *testing.T) {
	t.Parallel()
	store := &counting{}
	w := newWorld(t, setup{people: newPeople(10_000), change: func(o *Options) {
		store.watched = o.Store.(*watched)
		o.Store = store
	}})
	content := bytes.Repeat([]byte("x"), 100_000)
	store.down.Store(true) // the first read fails, which no message notices
	send := w.send(to(notify.ToEveryone, ""), w.attach("report", content))
	w.start()
	if got := w.finish(send); got.Delivered != 10_000 {
		t.Fatalf("counts are %+v, want all delivered", got)
	}
	var first *notify.Attached
	for _, o := range w.post.all() {
		if first == nil {
			first = o.Attached
		}
		if o.Attached == nil || o.Attached != first {
			t.Fatalf("%s has the attachments %p, want the shared %p", o.To, o.Attached, first)
		}
	}
	if !bytes.Equal(first.Files[0].Content, content) || first.Files[0].Name != "report" || first.Bytes != 100_000 {
		t.Errorf("%d bytes of %q", len(first.Files[0].Content), first.Files[0].Name)
	}
	if n := store.reads.Load(); n != 2 {
		t.Errorf("the file was read %d times, want once, and once with an error", n)
	}
}

// TestAttachmentsGone parks messages whose file is no longer there, and no other.
func TestAttachmentsGone(t *testing.T) {
	t.Parallel()
	store := &counting{}
	w := newWorld(t, setup{change: func(o *Options) {
		store.watched = o.Store.(*watched)
		o.Store = &missing{store}
	}})
	lost := w.send(w.attach("lost", []byte("1")))
	other := w.send(w.attach("kept", []byte("2")))
	w.start()
	if got := w.finish(other); got.Delivered != 1 {
		t.Errorf("counts are %+v, want it delivered", got)
	}
	if got := w.finish(lost); got.Failed != 1 {
		t.Errorf("counts are %+v, want it failed", got)
	}
	if m := w.message(lost, 0); !m.Parked || !strings.Contains(m.Reason, `the attachment "lost" is no longer stored`) {
		t.Errorf("%+v", m)
	}
}

type missing struct{ *counting }

func (m *missing) FileContent(ctx context.Context, clientID, id string) ([]byte, error) {
	if id == "lost" {
		return nil, notify.ErrNotFound
	}
	return m.counting.FileContent(ctx, clientID, id)
}

// TestAttachmentsKept keeps few attachments in memory, and those that are not used not for long.
func TestAttachmentsKept(t *testing.T) {
	t.Parallel()
	store := &counting{}
	w := newWorld(t, setup{change: func(o *Options) {
		store.watched = o.Store.(*watched)
		o.Store = store
	}})
	ctx := context.Background()
	w.attach("large", make([]byte, notify.MaxAttachedBytes*2/3))
	send := func(number int64) *notify.Send {
		return &notify.Send{Number: number, ClientID: "shop", Attachments: []notify.Attachment{{ID: "large"}}}
	}
	files := w.contents.files
	for number := range int64(5) {
		for range 2 {
			if _, err := files.of(ctx, send(number)); err != nil {
				t.Fatal(err)
			}
		}
		if files.bytes > keptFiles || len(files.known) != 1 || files.order.Len() != 1 {
			t.Errorf("%d bytes of %d sends are kept", files.bytes, len(files.known))
		}
	}
	if n := store.reads.Load(); n != 5 {
		t.Errorf("%d reads, want 5", n)
	}
	files.tidy()
	if len(files.known) != 1 {
		t.Error("attachments that were just used are forgotten")
	}
	files.tidy()
	if files.bytes != 0 || len(files.known) != 0 || files.order.Len() != 0 {
		t.Errorf("%d bytes of %d sends are kept when nothing uses them", files.bytes, len(files.known))
	}
	if a, err := files.of(ctx, &notify.Send{Number: 9}); a != nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// TestLoad ends a part of a batch when it holds or carries much.
func TestLoad(t *testing.T) {
	t.Parallel()
	body := &notify.Body{Text: "text"}
	for name, c := range map[string]struct {
		sends, want int
		bytes       int64
	}{
		"one small file for all":   {1, 1000, 1000},
		"one large file for all":   {1, 13, 10 << 20},
		"a large file for each":    {1000, 2, 10 << 20},
		"a small file for each":    {1000, 1000, 1000},
		"a medium file for each":   {1000, 15, 1 << 20},
		"a medium one for several": {20, 128, 1 << 20},
	} {
		var l load
		n := 0
		files := make([]*notify.Attached, c.sends)
		for i := range files {
			files[i] = &notify.Attached{Bytes: c.bytes}
		}
		for i := range 1000 {
			n++
			if l.add(body, false, files[i*c.sends/1000]) {
				break
			}
		}
		if n != c.want {
			t.Errorf("%s: a part has %d messages, want %d", name, n, c.want)
		}
	}
}
