package delivery

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/text/language"

	"ingot/internal/notify"
)

// recipientData reads the data of sends and of members of lists.
type recipientData struct {
	lists notify.Lists

	mu     sync.Mutex
	sends  *simplelru.LRU[int64, map[string]any]
	blocks *simplelru.LRU[blockKey, []notify.Member]
}

type blockKey struct {
	list     string
	position int
}

const (
	// keptSends and keptBlocks are more than workers need at a time: each one is in one send
	// and one block. A block is at most 4 MiB.
	keptSends  = 32
	keptBlocks = 8
)

func newRecipientData(lists notify.Lists) *recipientData {
	sends, _ := simplelru.NewLRU[int64, map[string]any](keptSends, nil)       // the size is valid
	blocks, _ := simplelru.NewLRU[blockKey, []notify.Member](keptBlocks, nil) // the same
	return &recipientData{lists: lists, sends: sends, blocks: blocks}
}

// of returns the data and the language of a message's recipient.
func (d *recipientData) of(ctx context.Context, l *message) (map[string]any, language.Tag, error) {
	data, err := d.ofSend(l.Send)
	if err != nil {
		return nil, language.Tag{}, err
	}
	locale := l.Send.Locale
	if list := l.Send.List(); list != "" {
		m, err := d.member(ctx, list, l.Audience)
		if err != nil {
			return nil, language.Tag{}, err
		}
		if m.Locale != "" {
			locale = m.Locale
		}
		if len(m.Data) > 0 {
			if data, err = notify.MergeData(data, m.Data); err != nil {
				return nil, language.Tag{}, err
			}
		}
	}
	tag := language.Tag{}
	if locale != "" {
		// It was checked when the send was accepted; in doubt, numbers are shown in English.
		tag, _ = language.Parse(locale)
	}
	return data, tag, nil
}

func (d *recipientData) ofSend(s *notify.Send) (map[string]any, error) {
	if len(s.Data) == 0 {
		return nil, nil
	}
	d.mu.Lock()
	data, ok := d.sends.Get(s.Number)
	d.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := notify.DecodeData(s.Data)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sends.Add(s.Number, data)
	return data, nil
}

// member returns a member of a list.
func (d *recipientData) member(ctx context.Context, list string, position int) (notify.Member, error) {
	key := blockKey{list, position - position%notify.ListBlock}
	d.mu.Lock()
	block, ok := d.blocks.Get(key)
	d.mu.Unlock()
	if !ok {
		var err error
		if block, err = d.lists.ListedMembers(ctx, list, key.position); err != nil {
			return notify.Member{}, fmt.Errorf("%w: %w", errStore, err)
		}
		d.mu.Lock()
		d.blocks.Add(key, block)
		d.mu.Unlock()
	}
	if i := position - key.position; i < len(block) {
		return block[i], nil
	}
	return notify.Member{}, fmt.Errorf("the list of recipients has no position %d", position)
}
