# The client of the check sends no Origin.
Rails.application.config.action_cable.disable_request_forgery_protection = true
