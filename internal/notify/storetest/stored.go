package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func (k *kit) wantFull(what string, err error) {
	k.Helper()
	if !fault.Is(err, fault.InsufficientStorage) {
		k.Errorf("%s: error is %v, want %s", what, err, fault.InsufficientStorage)
	}
}

func (k *kit) stored(s notify.Store, client string) notify.Stored {
	k.Helper()
	return value[notify.Stored](k)(s.Stored(k.ctx, client))
}

// testStoredSends stores more than a client may, in each way that sends have.
func testStoredSends(k *kit) {
	const most = 100_000
	open := func() notify.Store {
		return k.open(Options{Bounds: notify.Bounds{Sends: most}, Now: k.clock.Now})
	}
	long := strings.Repeat("x", most/3)
	members := []notify.Member{{UserID: "u", Data: json.RawMessage(`{"text":"` + long + `"}`)}}
	block := map[string]int{}
	for name, add := range map[string]func(s notify.Store, client string) error{
		"the content of a send": func(s notify.Store, client string) error {
			n := k.sending(client, "u")
			n.Content.Text = long
			_, _, err := s.Accept(k.ctx, n)
			return err
		},
		"the data of a send": func(s notify.Store, client string) error {
			n := k.sending(client, "u")
			n.Data = members[0].Data
			_, _, err := s.Accept(k.ctx, n)
			return err
		},
		"a list": func(s notify.Store, client string) error {
			if block[client] == 0 {
				k.must(s.CreateList(k.ctx, client, client))
			}
			err := s.AddToList(k.ctx, client, client, block[client], members)
			block[client] += notify.ListBlock
			return err
		},
	} {
		s := open()
		k.must(add(s, name))
		k.must(add(s, name))
		k.wantFull(name, add(s, name))
		s = open() // it is known after a restart, except for a little
		k.wantFull(name+" after a restart", add(s, name))
		if got := k.stored(s, name); got.Sends < most*6/10 || got.Sends > most || got.Bounds.Sends != most {
			k.Errorf("%s: %+v is stored", name, got)
		}
		k.must(add(s, name+" of another client"))
	}

	// It is free when it is deleted.
	s := open()
	k.must(s.DeleteList(k.ctx, "a list"))
	for _, c := range k.claim(s, "owner", 100) {
		k.finish(s, notify.Delivered, c.Number)
	}
	k.clock.Advance(time.Hour)
	value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	for _, client := range []string{"the content of a send", "the data of a send", "a list"} {
		if got := k.stored(s, client); got.Sends > most/64 {
			k.Errorf("%s: %d bytes are stored after all was deleted", client, got.Sends)
		}
	}
	n := k.sending("the data of a send", "u")
	n.Content.Text = long
	k.accept(s, n)

	// A send that was repeated or refused does not count.
	used := k.stored(s, "repeats").Sends
	n = k.sending("repeats", "u")
	n.Idempotency = notify.Idempotency{Key: "key", Hash: "hash", Until: k.clock.Now().Add(time.Hour)}
	k.accept(s, n)
	used = k.stored(s, "repeats").Sends - used
	for range 3 {
		value[bool](k)(func() (bool, error) { _, replayed, err := s.Accept(k.ctx, n); return replayed, err }())
	}
	k.equal("bytes of a send that was repeated", k.stored(s, "repeats").Sends, used)
}

// testStoredDefinitions defines more than a client may, in each way there is.
func testStoredDefinitions(k *kit) {
	const most = 20_000
	s := k.open(Options{Bounds: notify.Bounds{Definitions: most}, Now: k.clock.Now})
	long := strings.Repeat("x", most/3)
	for name, define := range map[string]func(client, id string) error{
		"kinds": func(client, id string) error {
			return s.Register(k.ctx, notify.Client{ID: client, Description: "d"},
				[]notify.Kind{{ClientID: client, ID: id, Description: long}}, false)
		},
		"schemas": func(client, id string) error {
			kinds := []notify.Kind{{ClientID: client, ID: id}}
			if err := s.Register(k.ctx, notify.Client{ID: client}, kinds, false); err != nil {
				return err
			}
			return s.SetSchema(k.ctx, notify.KindRef{ClientID: client, KindID: id}, json.RawMessage(`{"title":"`+long+`"}`))
		},
		"templates of v1": func(client, id string) error {
			return s.CreateTemplate(k.ctx, notify.Template{ID: client + id, Creator: client, HTML: long, Created: k.clock.Now()})
		},
		"templates of v2": func(client, id string) error {
			return s.CreateTemplate(k.ctx, notify.Template{ID: client + id, Owner: client, Text: long, Created: k.clock.Now()})
		},
		"senders": func(client, id string) error {
			_, err := s.CreateSender(k.ctx, notify.Sender{ID: client + id, ClientID: client, Name: id + long})
			return err
		},
		"campaign types": func(client, id string) error {
			if _, err := s.CreateSender(k.ctx, notify.Sender{ID: client, ClientID: client, Name: "s"}); err != nil {
				return err
			}
			_, err := s.CreateCampaignType(k.ctx, notify.CampaignType{ID: client + id, SenderID: client, ClientID: client,
				Name: id, Description: long})
			return err
		},
	} {
		k.must(define(name, "1"))
		k.must(define(name, "2"))
		before := k.stored(s, name)
		k.wantFull(name, define(name, "3"))
		k.equal(name+" after what was refused", k.stored(s, name).Definitions <= before.Definitions+1000, true)
		k.must(define("another client with "+name, "1"))
	}
	// Changes count too.
	t := notify.Template{ID: "templates of v11", HTML: long + long, Updated: k.clock.Now()}
	k.wantFull("a change", s.UpdateTemplate(k.ctx, t))
	k.must(s.DeleteTemplate(k.ctx, "templates of v12"))
	k.must(s.UpdateTemplate(k.ctx, t))
	// So do rows without content.
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		id := fmt.Sprint("sender-", i)
		_, err = s.CreateSender(k.ctx, notify.Sender{ID: id, ClientID: "many", Name: id})
	}
	k.wantFull("many small ones", err)
}
