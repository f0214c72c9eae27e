package cli

import (
	"context"
	"strings"

	"ingot/internal/cli/client"
)

type domainsCommand struct{}

type domainRow struct {
	Name      string   `json:"name"`
	GUID      string   `json:"guid"`
	Available string   `json:"availability"`
	Internal  bool     `json:"internal"`
	Protocols []string `json:"protocols"`
}

func (c *domainsCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting domains in org %s as %s...", s.out.Bold(s.cfg.Org.Name), s.out.Bold(s.api.User().Name()))
	type domain struct {
		client.Thing
		Internal      bool     `json:"internal"`
		Protocols     []string `json:"supported_protocols"`
		Relationships struct {
			Org client.To `json:"organization"`
		} `json:"relationships"`
	}
	found, err := client.List[domain](ctx, s.api, "/v3/organizations/"+s.cfg.Org.GUID+"/domains", nil)
	if err != nil {
		return nil, err
	}
	out := &listing[domainRow]{key: "domains", heading: []string{"name", "availability", "internal", "protocols"}, cells: func(d domainRow) []string {
		return []string{d.Name, d.Available, yesNo(d.Internal), strings.Join(d.Protocols, ",")}
	}}
	for _, d := range found {
		row := domainRow{d.Name, d.GUID, "shared", d.Internal, d.Protocols}
		if d.Relationships.Org.GUID() != "" {
			row.Available = "private"
		}
		out.rows = append(out.rows, row)
	}
	return out, nil
}
