package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/cli/core"
)

// notifications versions

type versionsFlags struct {
	notifyFlags
	Diff     int64 `long:"diff" value-name:"VERSION" description:"Show how this version differs from the one before"`
	From     int64 `long:"from" value-name:"VERSION" description:"With --diff: compare with this version"`
	Rollback int64 `long:"rollback" value-name:"VERSION" description:"Make this version the current one"`
}

type versionRow struct {
	Version   int64     `json:"version"`
	Current   bool      `json:"current"`
	Updated   time.Time `json:"updated_at"`
	ChangedBy string    `json:"changed_by"`
}

type differenceResult struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Parts []struct {
		Part   string   `json:"part"`
		Locale string   `json:"locale"`
		Lines  []string `json:"lines"`
	} `json:"parts"`
}

func changeVersions(ctx context.Context, s *core.Session, w core.Words, f *versionsFlags) (core.Result, error) {
	path := "/templates/" + url.PathEscape(w["TEMPLATE"])
	switch {
	case f.Diff != 0 && f.Rollback != 0:
		return nil, core.UsageError("--diff and --rollback cannot be used together")
	case f.From != 0 && f.Diff == 0:
		return nil, core.UsageError("--from requires --diff")
	case f.Diff != 0:
		s.Say("Comparing versions of template %s...", s.Out.Bold(w["TEMPLATE"]))
		return f.compare(ctx, s, path)
	case f.Rollback != 0:
		s.Say("Restoring version %d of template %s...", f.Rollback, s.Out.Bold(w["TEMPLATE"]))
		body := map[string]int64{"version": f.Rollback}
		if err := f.call(ctx, s, http.MethodPost, path+"/rollback", body, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting versions of template %s...", s.Out.Bold(w["TEMPLATE"]))
	}
	var found struct{ Versions []versionRow }
	if err := f.call(ctx, s, http.MethodGet, path+"/versions", nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[versionRow]{Key: "versions", None: "No versions found.", Paint: core.Plain, Rows: found.Versions,
		Heading: []string{"version", "changed", "by"},
		Cells: func(v versionRow) []string {
			return []string{strconv.FormatInt(v.Version, 10), v.Updated.Format(time.RFC3339), v.ChangedBy}
		}}, nil
}

func (f *versionsFlags) compare(ctx context.Context, s *core.Session, path string) (core.Result, error) {
	path += "/versions/" + strconv.FormatInt(f.Diff, 10) + "/difference"
	if f.From != 0 {
		path += "?from=" + strconv.FormatInt(f.From, 10)
	}
	var d differenceResult
	if err := f.call(ctx, s, http.MethodGet, path, nil, &d); err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, p := range d.Parts {
		text.WriteString(p.Part)
		if p.Locale != "" {
			text.WriteString(" (" + p.Locale + ")")
		}
		text.WriteString(":\n" + strings.Join(p.Lines, "\n") + "\n")
	}
	if len(d.Parts) == 0 {
		text.WriteString("The versions are equal.")
	}
	return &core.JSONAs{Result: &core.Text{Value: strings.TrimSuffix(text.String(), "\n")}, JSON: d}, nil
}
