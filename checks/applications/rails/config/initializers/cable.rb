# The client of the check sends no Origin. A browser's Origin must be that of the page.
Rails.application.config.action_cable.allowed_request_origins = [nil]
