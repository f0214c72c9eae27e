package delivery

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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

// of returns the data of a message's recipient.
func (d *recipientData) of(ctx context.Context, l *message) (map[string]any, error) {
	data, err := d.ofSend(l.Send)
	if err != nil || l.Send.List() == "" {
		return data, err
	}
	m, err := d.listed(ctx, l)
	if err != nil || len(m.Data) == 0 {
		return data, err
	}
	return notify.MergeData(data, m.Data)
}

// locale returns the language of a message's recipient: that which the sender gave this one, the
// user's, or that of the send. "" if there is none.
func (d *recipientData) locale(ctx context.Context, l *message) (string, error) {
	if l.Send.List() != "" {
		m, err := d.listed(ctx, l)
		if err != nil || m.Locale != "" {
			return m.Locale, err
		}
	}
	if l.locale != "" {
		return l.locale, nil
	}
	return l.Send.Locale, nil
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

// listed returns the member of a list that a message is for. That to a chat is for all of them, so it has what is
// theirs only if there is one.
func (d *recipientData) listed(ctx context.Context, l *message) (notify.Member, error) {
	if l.Channel != notify.Chat {
		return d.member(ctx, l.Send.List(), l.Audience)
	}
	all, err := d.block(ctx, blockKey{l.Send.List(), 0})
	if err != nil || len(all) != 1 {
		return notify.Member{}, err
	}
	return all[0], nil
}

// member returns a member of a list.
func (d *recipientData) member(ctx context.Context, list string, position int) (notify.Member, error) {
	key := blockKey{list, position - position%notify.ListBlock}
	block, err := d.block(ctx, key)
	if err != nil {
		return notify.Member{}, err
	}
	if i := position - key.position; i < len(block) {
		return block[i], nil
	}
	return notify.Member{}, fmt.Errorf("the list of recipients has no position %d", position)
}

func (d *recipientData) block(ctx context.Context, key blockKey) ([]notify.Member, error) {
	d.mu.Lock()
	block, ok := d.blocks.Get(key)
	d.mu.Unlock()
	if !ok {
		var err error
		if block, err = d.lists.ListedMembers(ctx, key.list, key.position); err != nil {
			return nil, fmt.Errorf("%w: %w", errStore, err)
		}
		d.mu.Lock()
		d.blocks.Add(key, block)
		d.mu.Unlock()
	}
	return block, nil
}
