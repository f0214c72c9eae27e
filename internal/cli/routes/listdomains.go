package routes

import (
	"context"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type domainRow struct {
	Name      string   `json:"name"`
	GUID      string   `json:"guid"`
	Available string   `json:"availability"`
	Internal  bool     `json:"internal"`
	Protocols []string `json:"protocols"`
}

func listDomains(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting domains in org %s", s.Config.Org.Name)
	found, err := client.List[cfapi.Domain](ctx, s.API, "/v3/organizations/"+s.Config.Org.GUID+"/domains", nil)
	if err != nil {
		return nil, err
	}
	out := &core.Listing[domainRow]{Key: "domains", Heading: []string{"name", "availability", "internal", "protocols"},
		Cells: func(d domainRow) []string {
			return []string{d.Name, d.Available, core.YesNo(d.Internal), strings.Join(d.Protocols, ",")}
		}}
	for _, d := range found {
		row := domainRow{d.Name, d.GUID, "shared", d.Internal, d.Protocols}
		if d.Relationships.Organization.GUID() != "" {
			row.Available = "private"
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func domainListCommands() []*core.Command {
	return core.InGroup(core.GroupRoutes,
		core.Entry("domains", "", "List the domains of the target org", core.NeedsOrg, listDomains, ""),
	)
}
