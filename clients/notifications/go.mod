module ingot/clients/notifications

go 1.26.0
