package cli

// subjectNotifications returns the commands of this package.
func subjectNotifications() []*command {
	return []*command{
		{name: "notifications", group: groupOther, summary: "Register, send and track notifications", about: notifyAlone, make: func() runner { return &notifyKinds{} }, sub: []*command{
			{name: "notifications register", summary: "Register a notification kind", args: "KIND", need: aLogin, example: []string{"notifications register disk-full --source 'Disk watch' --description 'A disk is nearly full'"}, make: func() runner { return &notifyRegister{} }},
			{name: "notifications kinds", summary: "List notification kinds", need: aLogin, example: []string{"notifications kinds"}, make: func() runner { return &notifyKinds{} }},
			{name: "notifications templates", summary: "List, create and assign templates", need: aLogin, example: []string{"notifications templates", "notifications templates --create plain --text @mail.txt --html @mail.html --assign disk-full"}, make: func() runner { return &notifyTemplates{} }},
			{name: "notifications send", summary: "Send a notification", args: "KIND", need: aLogin, example: []string{"notifications send disk-full --everyone --subject 'Disk full' --text 'Please tidy up'", "notifications send disk-full --space dev --text 'Please tidy up'"}, make: func() runner { return &notifySend{} }},
			{name: "notifications status", summary: "Show a notification's delivery status", args: "NOTIFICATION", need: aLogin, example: []string{"notifications status 1b2c3d"}, make: func() runner { return &notifyStatus{} }},
			{name: "notifications preferences", summary: "Show or change your subscriptions", need: aLogin, example: []string{"notifications preferences", "notifications preferences --unsubscribe my-sender/disk-full"}, make: func() runner { return &notifyPreferences{} }},
		}},
	}
}
