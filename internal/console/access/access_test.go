package access

import (
	"testing"

	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// TestPages renders pages with data as their handlers have it.
func TestPages(t *testing.T) {
	t.Parallel()
	pagetest.Pages(t, page.New(page.Options{}, page.Load(Files), nil), []pagetest.Page{
		{Template: "clients.html", Data: clientsData{Clients: []oauthClient{{ID: "a b", Scopes: []string{"1", "2", "3", "4",
			"5"}}, {ID: "cf"}}, Pager: pagetest.Pager(), MayWrite: true}, Want: []string{"/console/clients/a%20b", "system"}},
		{Template: "users.html", Data: usersData{Users: []authUser{{ID: "u", UserName: "ann", LastLogin: 1}},
			Pager: pagetest.Pager(), MayWrite: true}, Want: []string{"ann", "inactive", "1970-01-01"}},
	})
}
