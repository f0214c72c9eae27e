package platformdb

import (
	"time"

	"ingot/internal/platform"
)

var gitSources = define(table[platform.GitSource]{
	name: "platform_git_sources",
	base: (*platform.GitSource).Base,
	columns: []column[platform.GitSource]{
		text("app_guid", func(s *platform.GitSource) *string { return &s.AppGUID }),
		text("space_guid", func(s *platform.GitSource) *string { return &s.SpaceGUID }),
		text("url", func(s *platform.GitSource) *string { return &s.URL }),
		text("branch", func(s *platform.GitSource) *string { return &s.Branch }),
		text("folder", func(s *platform.GitSource) *string { return &s.Folder }),
		text("username", func(s *platform.GitSource) *string { return &s.Username }),
		sealed("platform_git_sources", "password", (*platform.GitSource).Base,
			func(s *platform.GitSource) *string { return &s.Password }),
		sealed("platform_git_sources", "secret", (*platform.GitSource).Base,
			func(s *platform.GitSource) *string { return &s.Secret }),
		text("owner_guid", func(s *platform.GitSource) *string { return &s.OwnerGUID }),
		text("owner_name", func(s *platform.GitSource) *string { return &s.OwnerName }),
		object("deliveries", func(s *platform.GitSource) *[]string { return &s.Deliveries }),
		text("commit", func(s *platform.GitSource) *string { return &s.Commit }).named("commit_hash"),
		text("subject", func(s *platform.GitSource) *string { return &s.Subject }),
		moment("deployed_at", func(s *platform.GitSource) *time.Time { return &s.Deployed }),
		text("error", func(s *platform.GitSource) *string { return &s.Error }),
	},
	seenBy: inSpaces,
})

// GitSources implements platform.Tx.
func (x *transaction) GitSources() platform.Repo[platform.GitSource] {
	return repoOf(x, gitSources)
}
