package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"ingot/internal/notify"
)

func testLists(k *kit) {
	s := k.store()
	members := func(from, n int) []notify.Member {
		list := make([]notify.Member, n)
		for i := range list {
			list[i] = notify.Member{UserID: fmt.Sprintf("user-%d", from+i), Locale: "de",
				Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"Grüße 🎉"}`, from+i))}
		}
		return list
	}
	block := func(id string, position int) []notify.Member {
		k.Helper()
		return value[[]notify.Member](k)(s.ListedMembers(k.ctx, id, position))
	}
	for _, id := range []string{"used", "left", "young"} {
		if id == "young" {
			k.clock.Advance(25 * time.Hour)
		}
		k.must(s.CreateList(k.ctx, "c", id))
		k.must(s.AddToList(k.ctx, "c", id, 0, members(0, notify.ListBlock)))
		k.must(s.AddToList(k.ctx, "c", id, notify.ListBlock, members(notify.ListBlock, 3)))
	}
	s = k.store()
	k.equal("the first block", block("used", 0), members(0, notify.ListBlock))
	k.equal("the second block", block("used", notify.ListBlock), members(notify.ListBlock, 3))
	k.equal("what follows", block("used", 2*notify.ListBlock), []notify.Member{})
	if err := s.AddToList(k.ctx, "c", "used", 5, members(0, 1)); err == nil {
		k.Error("a block begins in the middle")
	}
	k.wantErr(s.AddToList(k.ctx, "c", "missing", 0, members(0, 1)), notify.ErrNotFound)
	k.wantErr(s.AddToList(k.ctx, "other", "left", 2*notify.ListBlock, members(0, 1)), notify.ErrNotFound)

	n := k.sending("c", "user-0")
	n.Audiences = []notify.Audience{{Type: notify.ToList, ID: "used"}}
	n.Data, n.Locale = json.RawMessage(`{"shop":"ours"}`), "pt-BR"
	send := k.accept(s, n)
	got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("the send's data", string(got.Data)+got.Locale+got.List(), `{"shop":"ours"}pt-BRused`)
	k.must(s.DeleteList(k.ctx, "used")) // it has a send
	k.wantErr(s.AddToList(k.ctx, "c", "used", 2*notify.ListBlock, members(0, 1)), notify.ErrNotFound)
	k.equal("the block of a list in use", len(block("used", 0)), notify.ListBlock)
	again := k.sending("c", "user-0")
	again.Audiences = n.Audiences
	if _, _, err := s.Accept(k.ctx, again); err == nil {
		k.Error("two sends use one list")
	}

	// What a crash left behind is removed, and the rest stays.
	value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(-48*time.Hour)))
	k.equal("blocks of a list without a send", len(block("left", 0)), 0)
	k.equal("blocks of a new list", len(block("young", 0)), notify.ListBlock)
	k.equal("blocks of a list in use", len(block("used", notify.ListBlock)), 3)
	k.must(s.DeleteList(k.ctx, "young"))
	k.equal("blocks of a deleted list", len(block("young", notify.ListBlock)), 0)

	// A list goes with its send.
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "owner", 10))...)
	k.clock.Advance(time.Hour)
	value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	k.wantErr(func() error { _, err := s.Send(k.ctx, send.Number); return err }(), notify.ErrNotFound)
	k.equal("blocks of a purged send", len(block("used", 0)), 0)
}

func testSchemas(k *kit) {
	s := k.store()
	ref := notify.KindRef{ClientID: "c", KindID: "news"}
	register := func(kinds ...string) {
		k.Helper()
		var all []notify.Kind
		for _, id := range kinds {
			all = append(all, notify.Kind{ClientID: "c", ID: id, Description: id})
		}
		k.must(s.Register(k.ctx, notify.Client{ID: "c"}, all, true))
	}
	schema := func() string {
		k.Helper()
		return string(value[json.RawMessage](k)(s.Schema(k.ctx, ref)))
	}
	k.wantErr(s.SetSchema(k.ctx, ref, json.RawMessage(`{}`)), notify.ErrNotFound)
	register("news", "other")
	k.equal("no schema", schema(), "")
	k.must(s.SetSchema(k.ctx, ref, json.RawMessage(`{"type":"object"}`)))
	k.must(s.SetSchema(k.ctx, ref, json.RawMessage(`{"title":"Grüße"}`)))
	s = k.store()
	k.equal("the schema", schema(), `{"title":"Grüße"}`)
	register("news")
	k.equal("the schema of a kind that stays", schema(), `{"title":"Grüße"}`)
	k.must(s.SetSchema(k.ctx, ref, nil))
	k.equal("a removed schema", schema(), "")
	k.must(s.SetSchema(k.ctx, ref, json.RawMessage(`{}`)))
	register("other")
	register("news")
	k.equal("the schema of a kind that was deleted", schema(), "")
}
