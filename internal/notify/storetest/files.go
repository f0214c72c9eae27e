package storetest

import (
	"bytes"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// put stores a file.
func (k *kit) put(s notify.Store, client, id string, content []byte) (known bool) {
	k.Helper()
	return value[bool](k)(s.PutFile(k.ctx, notify.File{ClientID: client, ID: id, Kind: "image/png"}, content))
}

// withFiles is a send to one user with attachments.
func (k *kit) withFiles(client, user string, ids ...string) notify.NewSend {
	n := k.sending(client, user)
	n.Audiences = []notify.Audience{{Type: notify.ToUser, ID: user}}
	for _, id := range ids {
		n.Attachments = append(n.Attachments, notify.Attachment{Name: "Büro.png", Type: "image/png", ID: id, Size: 3,
			Inline: "logo"})
	}
	return n
}

// testFiles stores files once by content and client, keeps them while a send has them, and deletes them after.
func testFiles(k *kit) {
	s := k.store()
	large := bytes.Repeat([]byte{0, 1, 255, 'x'}, 1<<20)
	k.equal("a new file is known", k.put(s, "c", "one", large), false)
	used := k.stored(s, "c").Sends
	k.equal("bytes at least stored", used > int64(len(large)), true)
	k.equal("the same file is known", k.put(s, "c", "one", large), true)
	k.equal("bytes stored of the same file twice", k.stored(s, "c").Sends, used)
	k.equal("that of another client is known", k.put(s, "d", "one", []byte("d")), false)
	f := value[notify.File](k)(s.File(k.ctx, "c", "one"))
	k.equal("file", f, notify.File{ClientID: "c", ID: "one", Kind: "image/png", Size: int64(len(large)),
		Created: f.Created, Used: f.Created})
	if got := value[[]byte](k)(s.FileContent(k.ctx, "c", "one")); !bytes.Equal(got, large) {
		k.Errorf("%d bytes came back, want the %d that were stored", len(got), len(large))
	}
	k.equal("content of another client", value[[]byte](k)(s.FileContent(k.ctx, "d", "one")), []byte("d"))
	for _, id := range []string{"none", "", "o\x00ne"} {
		_, err := s.File(k.ctx, "c", id)
		k.wantErr(err, notify.ErrNotFound)
		_, err = s.FileContent(k.ctx, "c", id)
		k.wantErr(err, notify.ErrNotFound)
	}
	k.wantErr(s.DeleteFile(k.ctx, "c", "none"), notify.ErrNotFound)

	// A send keeps its files, also one that waits for its time; the attachments come back with it.
	k.put(s, "c", "two", []byte("2"))
	n := k.withFiles("c", "u", "one", "two", "one")
	n.Idempotency = notify.Idempotency{Key: "key", Hash: "h", Until: k.clock.Now().Add(24 * time.Hour)}
	sent := k.accept(s, n)
	_, replayed, err := s.Accept(k.ctx, n)
	k.must(err)
	k.equal("the second is a repetition", replayed, true)
	later := k.withFiles("c", "u", "two")
	later.SendAt, later.Planned, later.Expanded, later.Recipients = k.clock.Now().Add(time.Hour), 1, false, nil
	planned := k.accept(s, later)
	for _, send := range []notify.Send{sent, planned} {
		k.equal("attachments", value[notify.Send](k)(s.Send(k.ctx, send.Number)).Attachments, send.Attachments)
	}
	s = k.store()
	claimed := k.claim(s, "w", 10)
	k.equal("attachments of a claimed message", claimed[0].Send.Attachments, n.Attachments)
	for _, id := range []string{"one", "two"} {
		k.wantErr(s.DeleteFile(k.ctx, "c", id), notify.ErrConflict)
	}
	purge := func() {
		k.Helper()
		k.clock.Advance(notify.FilesKept + time.Second)
		value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	}
	purge()
	k.equal("size of a file that a send has", value[notify.File](k)(s.File(k.ctx, "c", "one")).Size, int64(len(large)))
	k.wantErr(func() error { _, err := s.File(k.ctx, "d", "one"); return err }(), notify.ErrNotFound)
	k.equal("bytes stored of d", k.stored(s, "d").Sends, int64(0))

	// It goes with the last send.
	k.finish(s, notify.Delivered, numbersOf(claimed)...)
	purge()
	k.wantErr(func() error { _, err := s.FileContent(k.ctx, "c", "one"); return err }(), notify.ErrNotFound)
	k.equal("content of a file of a scheduled send", value[[]byte](k)(s.FileContent(k.ctx, "c", "two")), []byte("2"))
	k.equal("sends that are due", value[int](k)(func() (int, error) {
		n, _, err := s.Activate(k.ctx, 10)
		return n, err
	}()), 1)
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	purge()
	k.equal("bytes stored of c", k.stored(s, "c").Sends < 2048, true)

	// A send whose file is gone is refused, alone of those that are accepted at the same time.
	k.put(s, "c", "three", []byte("3"))
	_, _, err = s.Accept(k.ctx, k.withFiles("c", "u", "three", "one"))
	if !fault.Is(err, fault.Unprocessable) {
		k.Errorf("error is %v, want %s", err, fault.Unprocessable)
	}
	k.accept(s, k.withFiles("c", "u", "three"))
	_, _, err = s.Accept(k.ctx, k.withFiles("d", "u", "three"))
	if !fault.Is(err, fault.Unprocessable) {
		k.Errorf("the file of another client: error is %v, want %s", err, fault.Unprocessable)
	}
}

// testFilesFull stores more files than a client may.
func testFilesFull(k *kit) {
	const most = 100_000
	s := k.open(Options{Bounds: notify.Bounds{Sends: most}, Now: k.clock.Now})
	content := make([]byte, most/3)
	k.put(s, "c", "1", content)
	k.put(s, "c", "2", content)
	_, err := s.PutFile(k.ctx, notify.File{ClientID: "c", ID: "3"}, content)
	k.wantFull("a third file", err)
	k.wantErr(func() error { _, err := s.File(k.ctx, "c", "3"); return err }(), notify.ErrNotFound)
	k.put(s, "other", "3", content)
	k.must(s.DeleteFile(k.ctx, "c", "1"))
	k.put(s, "c", "3", content)
	k.equal("it is known although there is no room", k.put(s, "c", "2", content), true)
}

// testFilesTogether attaches files while others store, delete and purge them: a send that was accepted has its files.
func testFilesTogether(k *kit) {
	s := k.store()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				k.put(s, "c", "shared", []byte("content"))
				switch i {
				case 0:
					_ = s.DeleteFile(k.ctx, "c", "shared") // or it is used
				case 1:
					_, _ = s.Purge(k.ctx, k.clock.Now()) // what it deletes is told below
				default:
					send, _, err := s.Accept(k.ctx, k.withFiles("c", "u", "shared"))
					if err != nil {
						continue
					}
					if _, err := s.FileContent(k.ctx, "c", "shared"); err != nil {
						k.Errorf("send %d lost its file: %v", send.Number, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// testFilesErased erases files with the content of sends to a person alone.
func testFilesErased(k *kit) {
	s := k.store()
	for _, id := range []string{"alone", "both", "all"} {
		k.put(s, "c", id, []byte(id))
	}
	k.accept(s, k.withFiles("c", "dora", "alone", "both"))
	k.accept(s, k.withFiles("c", "ann", "both"))
	all := k.withFiles("c", "dora", "all")
	all.Audiences = append(all.Audiences, notify.Audience{Type: notify.ToUser, ID: "ann"})
	k.accept(s, all)
	e := k.erase(s, "e1", notify.Person{ClientID: "c", UserID: "dora"})
	k.equal("it is finished", e.Finished.IsZero(), false)
	_, err := s.File(k.ctx, "c", "alone")
	k.wantErr(err, notify.ErrNotFound)
	_, err = s.FileContent(k.ctx, "c", "alone")
	k.wantErr(err, notify.ErrNotFound)
	for _, id := range []string{"both", "all"} {
		k.equal("content of "+id, value[[]byte](k)(s.FileContent(k.ctx, "c", id)), []byte(id))
	}
}
