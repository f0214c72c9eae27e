package notifications

import (
	"context"
	"encoding/json"
	"strings"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications digest

type digestFlags struct {
	notifyFlags
	Window   string `long:"window" value-name:"DURATION" description:"Collect for this long, from the first one: 90s, 15m, 36h"`
	Max      int    `long:"max" value-name:"N" description:"Send the digest when it has this many (default: 100)"`
	Key      string `long:"key" value-name:"FIELD" description:"Field of the data that divides digests, such as thread.id"`
	Channels string `long:"channels" value-name:"LIST" description:"Channels that are collected (default: all)"`
	Choice   string `long:"choice" value-name:"LIST" description:"What users may choose instead: at_once, hourly, daily, weekly"`
	Delete   bool   `long:"delete" description:"Deliver later notifications one by one"`
}

// digest is how the notifications of a kind are collected.
type digest struct {
	Kind        string          `json:"kind"`
	Digest      json.RawMessage `json:"digest"`
	Description string          `json:"description"`
}

func (d *digest) Show(p *term.Printer) { p.Println(d.Description) }

func changeDigest(ctx context.Context, s *core.Session, w core.Words, f *digestFlags) (core.Result, error) {
	rule := kindRule{Path: "digest", Name: "digest", Delete: f.Delete}
	if f.Window != "" || f.Max != 0 || f.Key+f.Channels+f.Choice != "" {
		if f.Delete {
			return nil, core.UsageError("--delete cannot be used with other options of the digest")
		}
		body := map[string]any{}
		if f.Window != "" {
			body["window"] = f.Window
		}
		if f.Max != 0 {
			body["max"] = f.Max
		}
		if f.Key != "" {
			body["key"] = f.Key
		}
		if f.Channels != "" {
			body["channels"] = strings.Split(f.Channels, ",")
		}
		if f.Choice != "" {
			body["choice"] = strings.Split(f.Choice, ",")
		}
		rule.Body = body
	}
	return rule.change(ctx, s, w["KIND"], &f.notifyFlags, &digest{Kind: w["KIND"]})
}
