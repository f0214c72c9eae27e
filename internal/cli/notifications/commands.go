package notifications

import (
	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return []*core.Command{
		{Name: "notifications", Group: core.GroupOther, Summary: "Register, send and track notifications", About: notifyAlone, Make: func() core.Runner { return &notifyKinds{} }, Sub: []*core.Command{
			{Name: "notifications register", Summary: "Register a notification kind", Args: "KIND", Need: core.NeedsLogin, Example: []string{"notifications register disk-full --source 'Disk watch' --description 'A disk is nearly full'"}, Make: func() core.Runner { return &notifyRegister{} }},
			{Name: "notifications kinds", Summary: "List notification kinds", Need: core.NeedsLogin, Example: []string{"notifications kinds"}, Make: func() core.Runner { return &notifyKinds{} }},
			{Name: "notifications templates", Summary: "List, create and assign templates", Need: core.NeedsLogin, Example: []string{"notifications templates", "notifications templates --create plain --text @mail.txt --html @mail.html --assign disk-full"}, Make: func() core.Runner { return &notifyTemplates{} }},
			{Name: "notifications send", Summary: "Send a notification", Args: "KIND", Need: core.NeedsLogin, Example: []string{"notifications send disk-full --everyone --subject 'Disk full' --text 'Please tidy up'", "notifications send disk-full --space dev --text 'Please tidy up'"}, Make: func() core.Runner { return &notifySend{} }},
			{Name: "notifications status", Summary: "Show a notification's delivery status", Args: "NOTIFICATION", Need: core.NeedsLogin, Example: []string{"notifications status 1b2c3d"}, Make: func() core.Runner { return &notifyStatus{} }},
			{Name: "notifications preferences", Summary: "Show or change your subscriptions", Need: core.NeedsLogin, Example: []string{"notifications preferences", "notifications preferences --unsubscribe my-sender/disk-full"}, Make: func() core.Runner { return &notifyPreferences{} }},
		}},
	}
}
